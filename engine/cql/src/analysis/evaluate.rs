//! Evaluates a prepared `WHERE` clause with bound values: keys, ranges, intervals of rows, filters.

use std::borrow::Cow;
use std::ops::Bound as End;

use firn_wide::internals::key::{Layout, ROWS};
use firn_wide::internals::ring::{Token, TokenEnd};
use firn_wide::internals::store::Partitions;
use smallvec::SmallVec;

use super::filter::{FilterCondition, FilterTest, RowFilter};
use super::index_lookup::{asked, choice, wanted};
use super::intervals::ValueIntervals;
use super::relation::{Choices, RelationKind, Restriction, Tuple, needed};
use super::restrictions::Restrictions;
use crate::catalog::TableSchema;
use crate::error::{Error, Result, bail, invalid};
use crate::values::{BoundTerm, BoundValue, EvalEnv};

/// Maximum number of keys, or of rows of a partition, that the lists of a statement may name.
const MAX_CHOICES: usize = 1 << 20;

/// Values of columns that have a `=`; few of them need no allocation.
pub type EqualValues<'v> = SmallVec<[Cow<'v, [u8]>; 2]>;

impl Restrictions {
    /// Returns the keys of the named partitions, in the order of their values, without duplicates.
    /// Some may be invalid as keys ([`TableSchema::check_key`]).
    ///
    /// # Errors
    /// `Invalid` for null, unset and invalid values.
    pub fn keys(&self, env: &EvalEnv<'_>) -> Result<Vec<Vec<u8>>> {
        if let Some(key) = self.one_key(env)? {
            return Ok(vec![key.into_owned()]);
        }
        let mut parts: Vec<Vec<Vec<u8>>> = vec![vec![]];
        for (restriction, column) in self.partition.iter().zip(self.table.partition()) {
            let mut choices = self.choices(restriction, env)?;
            let of = &column.of.value_type;
            choices.sort_by(|a, b| of.compare(&a[0], &b[0]));
            choices.dedup_by(|a, b| of.compare(&a[0], &b[0]).is_eq());
            parts = product(parts, &choices)?;
            if parts.is_empty() {
                return Ok(vec![]);
            }
        }
        let mut keys = Vec::with_capacity(parts.len());
        for part in &parts {
            let mut key = vec![];
            self.table.put_partition_key(part, &mut key)?;
            keys.push(key);
        }
        if let Some(range) = self.token_range(env)? {
            let layout = self.table.layout(self.partitioner);
            let mut part = vec![];
            keys.retain(|key| {
                part.clear();
                layout.put_partition(key, &mut part).is_ok()
                    && !matches!(&range.from, End::Included(from) if *part < **from)
                    && !matches!(&range.until, End::Excluded(until) if *part >= **until)
            });
        }
        Ok(keys)
    }

    /// Returns the key, if each of its columns has a `=` and the token is not restricted. This is
    /// the most frequent case.
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn one_key<'v>(&'v self, env: &EvalEnv<'v>) -> Result<Option<Cow<'v, [u8]>>> {
        let Some(mut parts) = self.key_parts(env)? else { return Ok(None) };
        if parts.len() == 1 {
            return Ok(parts.pop());
        }
        let mut key = Vec::with_capacity(parts.iter().map(|part| part.len() + 3).sum());
        self.table.put_partition_key(&parts, &mut key)?;
        Ok(Some(Cow::Owned(key)))
    }

    /// Returns the values of the key's columns, if each has a `=` and the token is not restricted.
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn key_parts<'v>(&'v self, env: &EvalEnv<'v>) -> Result<Option<EqualValues<'v>>> {
        if self.token.is_some() { Ok(None) } else { self.equal(&self.partition, env) }
    }

    /// Returns the values, if each of these restrictions is a `=` on one column.
    fn equal<'v>(
        &self,
        restrictions: &'v [Restriction],
        env: &EvalEnv<'v>,
    ) -> Result<Option<EqualValues<'v>>> {
        let mut values = EqualValues::new();
        for restriction in restrictions {
            let RelationKind::Eq(Tuple::Each(terms)) = &restriction.what else { return Ok(None) };
            let ([term], false) = (&terms[..], restriction.is_multi) else { return Ok(None) };
            values.push(needed(term.value(env)?, &self.table.columns()[restriction.first()].name)?);
        }
        Ok(Some(values))
    }

    /// Returns the range of partitions to read if none are named; `None` if it is empty.
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn partitions(&self, env: &EvalEnv<'_>) -> Result<Option<Partitions>> {
        let range = self.token_range(env)?.unwrap_or_else(Partitions::all);
        let empty = match (&range.from, &range.until) {
            (End::Included(from), End::Excluded(until)) => from >= until,
            (_, End::Excluded(until)) => until.is_empty(),
            _ => false,
        };
        Ok((!empty).then_some(range))
    }

    fn token_range(&self, env: &EvalEnv<'_>) -> Result<Option<Partitions>> {
        let Some(token) = &self.token else { return Ok(None) };
        let read = |term: &BoundTerm| {
            let value = match term.value(env)? {
                BoundValue::Bytes(bytes) => bytes,
                BoundValue::Null => bail!("Invalid null token value"),
                BoundValue::Unset => bail!("Invalid unset token value"),
            };
            self.partitioner.read_token(&value).map_err(|e| invalid(e.0))
        };
        let bytes = |token: &Token, after: bool| {
            let mut out = vec![];
            self.partitioner.put_token_bound(token, after, &mut out);
            out
        };
        let nothing = Partitions { from: End::Unbounded, until: End::Excluded(vec![]) };
        if let Some(term) = &token.equal {
            return Ok(Some(match read(term)? {
                TokenEnd::At(token) => Partitions {
                    from: End::Included(bytes(&token, false)),
                    until: End::Excluded(bytes(&token, true)),
                },
                // The ring ends where it begins, so the range is all partitions.
                TokenEnd::Ring => Partitions::all(),
                TokenEnd::BeforeAll => nothing,
            }));
        }
        let mut range = Partitions::all();
        if let Some((term, inclusive)) = &token.start
            && let TokenEnd::At(token) = read(term)?
        {
            range.from = End::Included(bytes(&token, !inclusive));
        }
        if let Some((term, inclusive)) = &token.end {
            match read(term)? {
                TokenEnd::At(token) => range.until = End::Excluded(bytes(&token, *inclusive)),
                TokenEnd::Ring => {}
                TokenEnd::BeforeAll => return Ok(Some(nothing)),
            }
        }
        Ok(Some(range))
    }

    fn names(&self, restriction: &Restriction) -> Vec<&str> {
        restriction.columns.iter().map(|c| &*self.table.columns()[*c].name).collect()
    }

    /// Returns the values of `=` or `IN`, each with one value for each column.
    fn choices(&self, restriction: &Restriction, env: &EvalEnv<'_>) -> Result<Vec<Vec<Vec<u8>>>> {
        let names = self.names(restriction);
        let tuples = match &restriction.what {
            RelationKind::Eq(tuple) => vec![tuple.eval(env, &names)?],
            RelationKind::In(choices) => choices.eval(env, &names)?,
            RelationKind::Slice { .. } | RelationKind::Contains { .. } | RelationKind::Like(_) => {
                vec![]
            }
        };
        let null = |name: &str| {
            invalid(match (&restriction.what, restriction.is_multi) {
                (RelationKind::In(_), true) => {
                    format!("Invalid null value in condition for columns: [{}]", names.join(", "))
                }
                (RelationKind::Eq(_), true) => format!("Invalid null value for column {name}"),
                _ => format!("Invalid null value in condition for column {name}"),
            })
        };
        let whole = |tuple: Vec<Option<Vec<u8>>>| {
            tuple
                .into_iter()
                .zip(&names)
                .map(|(value, name)| value.ok_or_else(|| null(name)))
                .collect::<Result<Vec<_>>>()
        };
        tuples.into_iter().map(whole).collect()
    }

    /// Returns the clustering values of the only row, if each column has a `=`, as in most
    /// statements. Requires [`names_rows`](Restrictions::names_rows).
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn one_row<'v>(&'v self, env: &EvalEnv<'v>) -> Result<Option<EqualValues<'v>>> {
        self.equal(&self.clustering, env)
    }

    /// Returns the clustering values of the named rows, in no order and possibly with duplicates.
    /// Omitted values are null. Requires [`names_rows`](Restrictions::names_rows).
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn rows(&self, env: &EvalEnv<'_>) -> Result<Vec<Vec<Vec<u8>>>> {
        let mut rows = vec![vec![]];
        for restriction in &self.clustering {
            rows = product(rows, &self.choices(restriction, env)?)?;
            if rows.is_empty() {
                // No row is named, whatever the other restrictions are.
                break;
            }
        }
        Ok(rows)
    }

    /// Returns the intervals of rows in a partition, as far as the clustering columns determine
    /// them.
    ///
    /// # Errors
    /// Those of [`keys`](Restrictions::keys).
    pub fn intervals(&self, env: &EvalEnv<'_>, layout: &Layout) -> Result<ValueIntervals> {
        if self.prefix == 0 {
            return Ok(ValueIntervals::all());
        }
        if let Some(values) = self.equal(&self.clustering[..self.prefix], env)? {
            let (from, until) =
                (self.bound(layout, &values, false)?, self.bound(layout, &values, true)?);
            return Ok(ValueIntervals::one(from, until));
        }
        let mut prefixes: Vec<Vec<Vec<u8>>> = vec![vec![]];
        for restriction in &self.clustering[..self.prefix] {
            if let RelationKind::Slice { start, end } = &restriction.what {
                let names = self.names(restriction);
                let values = |tuple: &Tuple| {
                    let values = tuple.eval(env, &names)?;
                    match values.iter().position(Option::is_none).filter(|_| restriction.is_multi) {
                        Some(i) => {
                            Err(invalid!("Invalid null value in condition for column {}", names[i]))
                        }
                        None => Ok(values),
                    }
                };
                let side = |side: &Option<(Tuple, bool)>| {
                    side.as_ref()
                        .map(|(tuple, inclusive)| Ok::<_, Error>((values(tuple)?, *inclusive)))
                        .transpose()
                };
                return self.slices(layout, &prefixes, side(start)?, side(end)?);
            }
            prefixes = product(prefixes, &self.choices(restriction, env)?)?;
            if prefixes.is_empty() {
                // No row is named, whatever the other restrictions are.
                break;
            }
        }
        let all = prefixes.iter().map(|prefix| {
            Ok((self.bound(layout, prefix, false)?, self.bound(layout, prefix, true)?))
        });
        Ok(ValueIntervals::union(all.collect::<Result<_>>()?))
    }

    fn slices(
        &self,
        layout: &Layout,
        prefixes: &[Vec<Vec<u8>>],
        start: Option<(Vec<Option<Vec<u8>>>, bool)>,
        end: Option<(Vec<Option<Vec<u8>>>, bool)>,
    ) -> Result<ValueIntervals> {
        let mut all = vec![];
        for prefix in prefixes {
            let whole = (self.bound(layout, prefix, false)?, self.bound(layout, prefix, true)?);
            let mut found = ValueIntervals::union(vec![whole]);
            for (side, upper) in [(&start, false), (&end, true)] {
                if let Some((values, inclusive)) = side {
                    found =
                        found.intersection(&self.side(layout, prefix, values, *inclusive, upper)?);
                }
            }
            all.extend(found.slices().map(|s| (s.from, s.until)));
        }
        Ok(ValueIntervals::union(all))
    }

    /// Returns the intervals of rows whose columns after a prefix are larger (`upper`: smaller)
    /// than these values.
    fn side(
        &self,
        layout: &Layout,
        prefix: &[Vec<u8>],
        values: &[Option<Vec<u8>>],
        inclusive: bool,
        upper: bool,
    ) -> Result<ValueIntervals> {
        let mut all = vec![];
        let mut stem = prefix.to_vec();
        for (i, value) in values.iter().enumerate() {
            let column = &self.table.clustering()[stem.len()];
            // Whether the requested rows come after the value in the order of the table.
            let follows = upper == column.descending;
            let Some(value) = value else {
                // Null sorts before all values.
                if follows {
                    all.push((self.bound(layout, &stem, false)?, self.bound(layout, &stem, true)?));
                }
                break;
            };
            let mut place = stem.clone();
            place.push(value.clone());
            let with_equal = inclusive && i + 1 == values.len();
            all.push(if follows {
                (self.bound(layout, &place, !with_equal)?, self.bound(layout, &stem, true)?)
            } else {
                (self.bound(layout, &stem, false)?, self.bound(layout, &place, with_equal)?)
            });
            stem = place;
        }
        Ok(ValueIntervals::union(all))
    }

    /// Returns a bound between rows. For writes it checks the maximum length of a row's clustering
    /// values.
    fn bound(&self, layout: &Layout, values: &[impl AsRef<[u8]>], after: bool) -> Result<Vec<u8>> {
        if !self.is_select() {
            TableSchema::check_clustering(values)?;
        }
        if values.is_empty() {
            return Ok(vec![if after { ROWS + 1 } else { ROWS }]);
        }
        // The encoding of most types adds one byte or a few bytes.
        let len: usize = values.iter().map(|v| v.as_ref().len() + 4).sum();
        let mut out = Vec::with_capacity(len + 2);
        layout.put_bound(values, after, &mut out)?;
        Ok(out)
    }

    /// Returns the conditions that keys and intervals do not cover.
    ///
    /// # Errors
    /// `Invalid` for null, unset and invalid values.
    pub fn filter(&self, env: &EvalEnv<'_>) -> Result<RowFilter> {
        let partition = if self.is_range { &self.partition[..] } else { &[] };
        if partition.is_empty() && !self.filters_clustering() && self.others.is_empty() {
            return Ok(RowFilter::default());
        }
        let clustering: Vec<&Restriction> = self.filtered_clustering().collect();
        for restriction in clustering.iter().filter(|r| r.is_multi) {
            match restriction.what {
                RelationKind::Slice { .. } => {
                    let text = "Multi-column slice restrictions cannot be used for filtering.";
                    return Err(invalid(text));
                }
                RelationKind::In(_) => {
                    bail!("Multicolumn IN filters are not supported");
                }
                _ => {}
            }
        }
        let left = partition.iter().chain(clustering).chain(&self.others);
        Ok(RowFilter(left.map(|r| self.condition(r, env)).collect::<Result<_>>()?))
    }

    /// Returns all restrictions as conditions, including those on keys and rows.
    ///
    /// # Errors
    /// Those of [`filter`](Restrictions::filter).
    pub fn whole_filter(&self, env: &EvalEnv<'_>) -> Result<RowFilter> {
        Ok(RowFilter(self.all().map(|r| self.condition(r, env)).collect::<Result<_>>()?))
    }

    fn condition(&self, restriction: &Restriction, env: &EvalEnv<'_>) -> Result<FilterCondition> {
        let names = self.names(restriction);
        let tuple = |tuple: &Tuple| asked(tuple, env, &names);
        let test = match &restriction.what {
            RelationKind::Eq(equal) => {
                let values = tuple(equal)?;
                match self.analyzed(restriction, &values) {
                    Some(test) => FilterTest::Text(test),
                    None => FilterTest::In(vec![values]),
                }
            }
            RelationKind::Like(pattern) => {
                FilterTest::Text(self.pattern(restriction, pattern, env)?)
            }
            RelationKind::In(Choices::List(list)) => {
                let values = list.iter().map(|tuple| choice(tuple, env, &names));
                FilterTest::In(values.filter_map(Result::transpose).collect::<Result<_>>()?)
            }
            RelationKind::In(_) => FilterTest::In(self.choices(restriction, env)?),
            RelationKind::Slice { start, end } => {
                let side = |side: &Option<(Tuple, bool)>| {
                    side.as_ref().map(|(t, i)| Ok::<_, Error>((tuple(t)?, *i))).transpose()
                };
                FilterTest::Range { start: side(start)?, end: side(end)? }
            }
            RelationKind::Contains { values, keys, entries } => {
                let terms = |terms: &[BoundTerm]| {
                    terms
                        .iter()
                        .map(|t| wanted(t.eval(env)?, "value", names[0]))
                        .collect::<Result<Vec<_>>>()
                };
                let pair = |(k, v): &(BoundTerm, BoundTerm)| {
                    Ok((
                        wanted(k.eval(env)?, "map key", names[0])?,
                        wanted(v.eval(env)?, "map value", names[0])?,
                    ))
                };
                FilterTest::Contains {
                    values: terms(values)?,
                    keys: terms(keys)?,
                    entries: entries.iter().map(pair).collect::<Result<_>>()?,
                }
            }
        };
        let typed = |c: &usize| (*c, self.table.columns()[*c].of.value_type.clone());
        Ok(FilterCondition { columns: restriction.columns.iter().map(typed).collect(), test })
    }
}

/// Returns each element of `before` followed by each element of `choices`.
fn product(before: Vec<Vec<Vec<u8>>>, choices: &[Vec<Vec<u8>>]) -> Result<Vec<Vec<Vec<u8>>>> {
    if before.len().saturating_mul(choices.len()) > MAX_CHOICES {
        bail!("the IN lists name more than {MAX_CHOICES} keys or rows together");
    }
    if let [only] = choices {
        let mut before = before;
        before.iter_mut().for_each(|b| b.extend(only.iter().cloned()));
        return Ok(before);
    }
    Ok(before.iter().flat_map(|b| choices.iter().map(|c| [&b[..], &c[..]].concat())).collect())
}

//! Operation of a statement on one column of a row (model 3.3).

use firn_kv::MAX_KEY_LEN;
use firn_wide::Type;
use firn_wide::internals::store::{StoreFamily, StoreMutation, StoreSlice, StoreView};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::limits::{CELL, ChangeWeight};
use crate::catalog::{TableColumn, TableSchema};
use crate::error::{Result, bail, bail_if, invalid};
use crate::exec::lists::ListClock;
use crate::syntax::ast::{self, Assign, ConditionPart};
use crate::values::{BoundTerm, BoundValue, Context, EvalEnv, HeapBytes, Receiver, split};

/// Larger than every path that follows a cell's name.
const BEYOND: u8 = firn_wide::internals::key::BEYOND;

/// An operation on a column.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub column: TableColumn,
    /// End of the positions of its cells, after the row's position.
    name: Vec<u8>,
    dropped_until: Option<i64>,
    what: OperationKind,
}

#[derive(Clone, Debug)]
enum OperationKind {
    /// Sets the value, which is one cell.
    Set(BoundTerm),
    /// Replaces all elements.
    Replace(BoundTerm),
    /// Writes elements of a set or map, or appends elements to a list.
    Add(BoundTerm),
    Prepend(BoundTerm),
    /// Deletes elements of a set, or keys of a map.
    RemoveKeys(BoundTerm, Type),
    /// Deletes elements of a list with these values.
    RemoveValues(BoundTerm),
    SetKey(BoundTerm, BoundTerm),
    SetIndex(BoundTerm, BoundTerm),
    SetField(u16, BoundTerm),
    Increment(BoundTerm),
    Decrement(BoundTerm),
    Delete,
    /// The string is for messages: `map key`, `set element`.
    DeleteKey(BoundTerm, &'static str),
    DeleteIndex(BoundTerm),
    DeleteField(u16),
}

impl HeapBytes for Operation {
    fn heap_bytes(&self) -> usize {
        let names = self.column.name.heap_bytes() + self.name.heap_bytes();
        names
            + match &self.what {
                OperationKind::Set(term)
                | OperationKind::Replace(term)
                | OperationKind::Add(term)
                | OperationKind::Prepend(term)
                | OperationKind::RemoveKeys(term, _)
                | OperationKind::RemoveValues(term)
                | OperationKind::SetField(_, term)
                | OperationKind::Increment(term)
                | OperationKind::Decrement(term)
                | OperationKind::DeleteKey(term, _)
                | OperationKind::DeleteIndex(term) => term.heap_bytes(),
                OperationKind::SetKey(key, value) | OperationKind::SetIndex(key, value) => {
                    key.heap_bytes() + value.heap_bytes()
                }
                OperationKind::Delete | OperationKind::DeleteField(_) => 0,
            }
    }
}

/// Writes the operations of a statement on one row to a mutation.
pub(super) struct MutationWriter<'w> {
    pub mutation: &'w mut StoreMutation,
    pub family: &'w StoreFamily,
    pub env: &'w EvalEnv<'w>,
    pub lists: &'w ListClock,
    /// State before the statement, for operations that read.
    pub view: Option<&'w StoreView>,
    pub timestamp: i64,
    pub ttl: u32,
    /// Position of the row (or of static cells), followed temporarily by the name of a cell.
    pub place: Vec<u8>,
    pub row_len: usize,
    /// Cells of the current column with this timestamp or an older one are dropped.
    pub dropped_until: Option<i64>,
    /// Cells that this statement has written to lists of the row, by position, if it reads lists.
    pub written: Option<BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    /// Total size of the changes.
    pub weight: &'w mut ChangeWeight,
}

impl MutationWriter<'_> {
    /// Moves to the row (or the static cells) at a position.
    pub fn begin(&mut self, row: &[u8]) {
        self.place.clear();
        self.place.extend_from_slice(row);
        self.row_len = row.len();
    }

    fn at(&mut self, name: &[u8]) {
        self.place.truncate(self.row_len);
        self.place.extend_from_slice(name);
    }

    /// Writes a cell at the current position.
    fn put(&mut self, value: &[u8]) {
        self.weight.rest += CELL + value.len();
        self.write(value);
    }

    /// Writes the row marker at the current position.
    pub fn mark(&mut self) {
        self.write(&[]);
    }

    fn write(&mut self, value: &[u8]) {
        match self.ttl {
            0 => self.mutation.put(self.family, &self.place, self.timestamp, value),
            ttl => self.mutation.put_ttl(self.family, &self.place, self.timestamp, value, ttl),
        };
    }

    /// Deletes the cell at the current position.
    fn delete(&mut self) {
        self.weight.rest += CELL;
        self.mutation.delete(self.family, &self.place, self.timestamp);
    }

    /// Runs `work` at the position of an element of the current cell, and then moves back.
    fn within(&mut self, of: &Type, path: &[u8], work: impl FnOnce(&mut Self)) -> Result<()> {
        let len = self.place.len();
        self.weight.rest += path.len();
        self.family.layout().put_path(of, path, &mut self.place)?;
        self.check_place(path)?;
        work(self);
        self.place.truncate(len);
        Ok(())
    }

    /// Refuses an element whose position would exceed the store's maximum key length.
    fn check_place(&self, path: &[u8]) -> Result<()> {
        // The partition's part of the key always fits in the other half.
        if self.place.len() <= MAX_KEY_LEN / 2 {
            return Ok(());
        }
        let mut whole = vec![];
        self.family.layout().put_partition(self.mutation.key(), &mut whole)?;
        if whole.len() + self.place.len() <= MAX_KEY_LEN {
            return Ok(());
        }
        Err(invalid!(
            "The element of a set or the key of a map has {} bytes: with the key of its row it may have {MAX_KEY_LEN} at most",
            path.len()
        ))
    }

    fn put_element(&mut self, of: &Type, path: &[u8], value: &[u8]) -> Result<()> {
        self.within(of, path, |w| w.put(value))
    }

    fn delete_element(&mut self, of: &Type, path: &[u8]) -> Result<()> {
        self.within(of, path, |w| w.delete())
    }

    /// Returns the live elements of the list at the current position, with their positions.
    fn elements(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let Some(view) = self.view else {
            bail!("an operation on a list needs a view of the store");
        };
        let until = [&self.place, &[BEYOND][..]].concat();
        let mut reader = view.read(
            self.family,
            self.mutation.key(),
            &StoreSlice::between(self.place.clone(), until.clone()),
        )?;
        let mut all = BTreeMap::new();
        while let Some(item) = reader.next()? {
            // Ignore values written before the column was dropped and added again.
            let Some(cell) = item.cell().filter(|c| Some(c.timestamp) > self.dropped_until) else {
                continue;
            };
            let mut place = vec![];
            item.place.put(&mut place);
            all.insert(place, (cell.value().to_vec(), cell.timestamp));
        }
        if let Some(written) = &self.written {
            for (place, value) in written.range(self.place.clone()..until) {
                let wins = all.get(place).is_none_or(|(there, timestamp)| {
                    match timestamp.cmp(&self.timestamp) {
                        Ordering::Equal => value.as_ref().is_none_or(|v| v >= there),
                        older_or_newer => older_or_newer.is_lt(),
                    }
                });
                match value {
                    Some(value) if wins => {
                        drop(all.insert(place.clone(), (value.clone(), self.timestamp)))
                    }
                    None if wins => drop(all.remove(place)),
                    _ => {}
                }
            }
        }
        Ok(all.into_iter().map(|(place, (value, _))| (place, value)).collect())
    }

    /// Records a write. All writes have one timestamp, so a deletion wins, then the larger value.
    fn note(&mut self, place: Vec<u8>, value: Option<&[u8]>) {
        let Some(written) = &mut self.written else { return };
        match written.entry(place) {
            Entry::Vacant(new) => drop(new.insert(value.map(<[u8]>::to_vec))),
            Entry::Occupied(mut old)
                if value.is_none_or(|new| old.get().as_deref().is_some_and(|old| old < new)) =>
            {
                old.insert(value.map(<[u8]>::to_vec));
            }
            Entry::Occupied(_) => {}
        }
    }

    /// Writes or deletes the list element at a position.
    fn change_element(&mut self, place: Vec<u8>, value: Option<&[u8]>) {
        // The name of an element is a uuid.
        self.weight.rest += CELL + 16 + value.map_or(0, <[u8]>::len);
        match (value, self.ttl) {
            (None, _) => self.mutation.delete(self.family, &place, self.timestamp),
            (Some(v), 0) => self.mutation.put(self.family, &place, self.timestamp, v),
            (Some(v), ttl) => self.mutation.put_ttl(self.family, &place, self.timestamp, v, ttl),
        };
        self.note(place, value);
    }

    fn add_to_list(&mut self, of: &Type, list: &[u8], before: bool) -> Result<()> {
        let parts = parts(of, list)?;
        let (now, lists) = (self.env.now, self.lists);
        let paths: Vec<_> = if before {
            lists.prepend(now, parts.len()).collect()
        } else {
            lists.append(now, parts.len()).collect()
        };
        for (part, path) in parts.into_iter().zip(paths) {
            let mut place = self.place.clone();
            self.family.layout().put_path(&Type::TimeUuid, &path, &mut place)?;
            self.change_element(place, Some(part));
        }
        Ok(())
    }

    /// Returns the position of the list element with this index. The list must not be null.
    fn element(&self, index: i32, doing: &str) -> Result<Vec<u8>> {
        let mut all = self.elements()?;
        bail_if!(all.is_empty(), "Attempted to {doing} a list which is null");
        match usize::try_from(index) {
            Ok(i) if i < all.len() => Ok(all.swap_remove(i).0),
            _ => Err(invalid!("List index {index} out of bound, list has size {}", all.len())),
        }
    }
}

/// Returns the parts of a serialised collection. Refuses nulls.
fn parts<'b>(of: &Type, bytes: &'b [u8]) -> Result<Vec<&'b [u8]>> {
    let whole: Option<Vec<_>> = split(of, bytes)?.into_iter().collect();
    whole.ok_or_else(|| invalid("null is not supported inside collections"))
}

fn fixed<const N: usize>(bytes: &[u8], receiver: &str) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| invalid!("{receiver} has {} bytes, and not {N}", bytes.len()))
}

impl Operation {
    /// Prepares an operation of `INSERT`, which sets the column.
    pub fn set(
        table: &TableSchema,
        column: &TableColumn,
        value: &ast::Term<'_>,
        context: &mut Context<'_>,
    ) -> Result<Operation> {
        let receiver = Receiver::column(table, column);
        let term = BoundTerm::prepare(value, &receiver, context)?;
        if column.is_counter() {
            let text = "(counters can only be incremented/decremented, not set)";
            bail!("Cannot set the value of counter column {} {text}", column.name);
        }
        Ok(Operation::of(
            table,
            column,
            if column.of.multicell {
                OperationKind::Replace(term)
            } else {
                OperationKind::Set(term)
            },
        ))
    }

    /// Prepares an operation of `UPDATE`.
    ///
    /// # Errors
    /// `Invalid operation (…) for … column …`, and errors of its terms.
    pub fn assign(
        table: &TableSchema,
        column: &TableColumn,
        how: &Assign<'_>,
        context: &mut Context<'_>,
    ) -> Result<Operation> {
        let receiver = Receiver::column(table, column);
        let (of, name) = (&column.of, &column.name);
        let refused = |shown: String, what: &str| {
            invalid!("Invalid operation ({shown}) for {what} column {name}")
        };
        let check_collection = |shown: String, non: &str| match (of.is_collection(), of.multicell) {
            (false, _) => Err(refused(shown, non)),
            (true, false) => Err(refused(shown, "frozen collection")),
            (true, true) => Ok(()),
        };
        let mut prepare =
            |term: &ast::Term<'_>, to: &Receiver| BoundTerm::prepare(term, to, context);
        let what = match (how, &of.value_type) {
            (Assign::Set(value), _) => return Operation::set(table, column, value, context),
            (Assign::Append(value), Type::Counter) => {
                OperationKind::Increment(prepare(value, &receiver)?)
            }
            (Assign::Append(value), of) => {
                check_collection(format!("{name} = {name} + {value}"), "non counter")?;
                OperationKind::Add(prepare(value, &receiver).map_err(|e| match of {
                    Type::Map(_) => {
                        invalid!("Value for a map addition has to be a map, but was: '{value}'")
                    }
                    _ => e,
                })?)
            }
            (Assign::Remove(value), Type::Counter) => {
                OperationKind::Decrement(prepare(value, &receiver)?)
            }
            (Assign::Remove(value), of) => {
                check_collection(format!("{name} = {name} - {value}"), "non counter")?;
                match of {
                    Type::List(_) => OperationKind::RemoveValues(prepare(value, &receiver)?),
                    Type::Map(kv) => {
                        let keys = receiver.other(name.clone(), Type::Set(kv.0.clone().into()));
                        let text = "Value for a map substraction has to be a set, but was";
                        let term = prepare(value, &keys);
                        let term = term.map_err(|_| invalid!("{text}: '{value}'"))?;
                        OperationKind::RemoveKeys(term, keys.of.value_type)
                    }
                    set => OperationKind::RemoveKeys(prepare(value, &receiver)?, set.clone()),
                }
            }
            (Assign::Prepend(value), _) => {
                let term = prepare(value, &receiver)?;
                let shown = || format!("{name} = {value} - {name}");
                match &of.value_type {
                    Type::List(_) if of.multicell => OperationKind::Prepend(term),
                    Type::List(_) => return Err(refused(shown(), "frozen list")),
                    _ => return Err(refused(shown(), "non list")),
                }
            }
            (Assign::Element { key, value }, of) => {
                let shown = || format!("{name}[{key}] = {value}");
                check_collection(shown(), "non collection")?;
                match of {
                    Type::Map(kv) => {
                        let key = prepare(key, &receiver.key(&kv.0))?;
                        OperationKind::SetKey(key, prepare(value, &receiver.value(&kv.1))?)
                    }
                    Type::List(element) => {
                        let index = prepare(key, &receiver.index())?;
                        OperationKind::SetIndex(index, prepare(value, &receiver.value(element))?)
                    }
                    _ => return Err(refused(shown(), "set")),
                }
            }
            (Assign::Field { field, value }, of_column) => {
                let shown = || format!("{name}.{field} = {value}");
                let Type::Udt(user) = of_column else { return Err(refused(shown(), "non-UDT")) };
                if !of.multicell {
                    return Err(refused(shown(), "frozen UDT"));
                }
                let (number, of) = field_of(user, name, &field.text)?;
                let to = receiver.other(format!("{name}.{field}"), of);
                OperationKind::SetField(number, prepare(value, &to)?)
            }
        };
        Ok(Operation::of(table, column, what))
    }

    /// Prepares an operation of `DELETE`.
    ///
    /// # Errors
    /// `Invalid deletion operation …`, and errors of its terms.
    pub fn delete(
        table: &TableSchema,
        column: &TableColumn,
        part: &ConditionPart<'_>,
        context: &mut Context<'_>,
    ) -> Result<Operation> {
        let receiver = Receiver::column(table, column);
        let (of, name) = (&column.of, &column.name);
        let refused =
            |what: &str| Err(invalid!("Invalid deletion operation for {what} column {name}"));
        let what = match part {
            ConditionPart::Whole => OperationKind::Delete,
            ConditionPart::Element(_) if !of.is_collection() => return refused("non collection"),
            ConditionPart::Element(_) if !of.multicell => return refused("frozen collection"),
            ConditionPart::Element(key) => {
                let mut prepare = |to: &Receiver| BoundTerm::prepare(key, to, context);
                match &of.value_type {
                    Type::Map(kv) => {
                        OperationKind::DeleteKey(prepare(&receiver.key(&kv.0))?, "map key")
                    }
                    Type::Set(element) => {
                        let key = prepare(&receiver.value(element))?;
                        OperationKind::DeleteKey(key, "set element")
                    }
                    _ => OperationKind::DeleteIndex(prepare(&receiver.index())?),
                }
            }
            ConditionPart::Field(field) => {
                let Type::Udt(user) = &of.value_type else {
                    bail!("Invalid field deletion operation for non-UDT column {name}");
                };
                if !of.multicell {
                    bail!("Frozen UDT column {name} does not support field deletions");
                }
                OperationKind::DeleteField(field_of(user, name, &field.text)?.0)
            }
        };
        Ok(Operation::of(table, column, what))
    }

    fn of(table: &TableSchema, column: &TableColumn, what: OperationKind) -> Operation {
        let dropped_until = table.dropped_until(column);
        Operation {
            name: table.cell_name(Some(column)),
            dropped_until,
            column: column.clone(),
            what,
        }
    }

    /// Reports whether it needs the current state.
    pub fn reads(&self) -> bool {
        matches!(
            self.what,
            OperationKind::RemoveValues(_)
                | OperationKind::SetIndex(..)
                | OperationKind::DeleteIndex(_)
        )
    }

    /// Writes the operation on a row.
    ///
    /// # Errors
    /// `Invalid` for invalid values.
    pub fn apply(&self, w: &mut MutationWriter<'_>) -> Result<()> {
        w.at(&self.name);
        w.dropped_until = self.dropped_until;
        let (of, env) = (&self.column.of.value_type, w.env);
        match &self.what {
            OperationKind::Set(term) => match term.value(env)? {
                BoundValue::Unset => {}
                BoundValue::Null => w.delete(),
                BoundValue::Bytes(bytes) => w.put(&bytes),
            },
            OperationKind::Replace(term) => {
                let value = term.value(env)?;
                if !matches!(value, BoundValue::Unset) {
                    // The elements that the statement itself writes must survive the deletion.
                    w.mutation.delete_complex(w.family, &w.place, w.timestamp.saturating_sub(1));
                }
                if let BoundValue::Bytes(bytes) = value {
                    self.add(w, &bytes)?;
                }
            }
            OperationKind::Add(term) => {
                if let BoundValue::Bytes(bytes) = term.value(env)? {
                    self.add(w, &bytes)?;
                }
            }
            OperationKind::Prepend(term) => {
                if let BoundValue::Bytes(bytes) = term.value(env)? {
                    w.add_to_list(of, &bytes, true)?;
                }
            }
            OperationKind::RemoveKeys(term, keys) => {
                if let (BoundValue::Bytes(bytes), Type::Set(key)) = (term.value(env)?, keys) {
                    parts(keys, &bytes)?.into_iter().try_for_each(|k| w.delete_element(key, k))?;
                }
            }
            OperationKind::RemoveValues(term) => {
                if let BoundValue::Bytes(bytes) = term.value(env)? {
                    let values = parts(of, &bytes)?;
                    for (place, _) in
                        w.elements()?.into_iter().filter(|(_, v)| values.contains(&&**v))
                    {
                        w.change_element(place, None);
                    }
                }
            }
            OperationKind::SetKey(key, value) => self.set_key(w, key, value)?,
            OperationKind::SetIndex(index, value) => {
                let index = index_of(index, env)?
                    .ok_or_else(|| invalid("Invalid unset value for list index"))?;
                let place = w.element(index, "set an element on")?;
                match value.value(env)? {
                    BoundValue::Unset => {}
                    BoundValue::Null => w.change_element(place, None),
                    BoundValue::Bytes(bytes) => w.change_element(place, Some(&bytes)),
                }
            }
            OperationKind::SetField(number, value) => match value.value(env)? {
                BoundValue::Unset => {}
                BoundValue::Null => w.delete_element(&Type::Short, &number.to_be_bytes())?,
                BoundValue::Bytes(bytes) => {
                    w.put_element(&Type::Short, &number.to_be_bytes(), &bytes)?
                }
            },
            OperationKind::Increment(term) | OperationKind::Decrement(term) => {
                self.count(w, term)?
            }
            OperationKind::Delete if self.column.of.multicell => {
                w.mutation.delete_complex(w.family, &w.place, w.timestamp);
                self.forget(w)?;
            }
            OperationKind::Delete => w.delete(),
            OperationKind::DeleteKey(term, what) => {
                let key = match term.value(env)? {
                    BoundValue::Unset if matches!(of, Type::Set(_)) => return Ok(()),
                    BoundValue::Unset => bail!("Invalid unset {what}"),
                    BoundValue::Null => bail!("Invalid null {what}"),
                    BoundValue::Bytes(bytes) => bytes,
                };
                if let Some(path) = self.column.of.path_type() {
                    w.delete_element(&path, &key)?;
                }
            }
            OperationKind::DeleteIndex(index) => {
                if let Some(index) = index_of(index, env)? {
                    let place = w.element(index, "delete an element from")?;
                    w.change_element(place, None);
                }
            }
            OperationKind::DeleteField(number) => {
                w.delete_element(&Type::Short, &number.to_be_bytes())?
            }
        }
        Ok(())
    }

    /// Records for later operations of the statement that the list at the current position is empty
    /// now.
    fn forget(&self, w: &mut MutationWriter<'_>) -> Result<()> {
        if w.written.is_some() && matches!(self.column.of.value_type, Type::List(_)) {
            for (place, _) in w.elements()? {
                w.note(place, None);
            }
        }
        Ok(())
    }

    /// Writes the elements of a serialised value.
    fn add(&self, w: &mut MutationWriter<'_>, bytes: &[u8]) -> Result<()> {
        let of = &self.column.of.value_type;
        match of {
            Type::List(_) => w.add_to_list(of, bytes, false),
            Type::Set(element) => {
                parts(of, bytes)?.into_iter().try_for_each(|e| w.put_element(element, e, &[]))
            }
            Type::Map(kv) => {
                parts(of, bytes)?.chunks_exact(2).try_for_each(|p| w.put_element(&kv.0, p[0], p[1]))
            }
            _ => {
                let fields = split(of, bytes)?.into_iter().enumerate();
                let mut given = fields.filter_map(|(i, f)| Some((u16::try_from(i).ok()?, f?)));
                given
                    .try_for_each(|(i, value)| w.put_element(&Type::Short, &i.to_be_bytes(), value))
            }
        }
    }

    /// Adds to a counter, or subtracts from it.
    fn count(&self, w: &mut MutationWriter<'_>, term: &BoundTerm) -> Result<()> {
        let delta = match term.value(w.env)? {
            BoundValue::Unset => return Ok(()),
            BoundValue::Null => bail!("Invalid null value for counter increment"),
            BoundValue::Bytes(bytes) => i64::from_be_bytes(fixed(&bytes, &self.column.name)?),
        };
        let overflows = || {
            let text = "overflows supported counter precision (signed 8 bytes integer)";
            invalid!("The negation of {delta} {text}")
        };
        let delta = match self.what {
            OperationKind::Increment(_) => delta,
            _ => delta.checked_neg().ok_or_else(overflows)?,
        };
        w.weight.rest += CELL + 8;
        w.mutation.add(w.family, &w.place, delta);
        Ok(())
    }

    fn set_key(
        &self,
        w: &mut MutationWriter<'_>,
        key: &BoundTerm,
        value: &BoundTerm,
    ) -> Result<()> {
        let Some(path) = self.column.of.path_type() else { return Ok(()) };
        let key = match key.value(w.env)? {
            BoundValue::Unset => bail!("Invalid unset map key"),
            BoundValue::Null => bail!("Invalid null map key"),
            BoundValue::Bytes(bytes) => bytes,
        };
        match value.value(w.env)? {
            BoundValue::Unset => Ok(()),
            BoundValue::Null => w.delete_element(&path, &key),
            BoundValue::Bytes(bytes) => w.put_element(&path, &key, &bytes),
        }
    }
}

/// Returns a list index; `None` if it is unset.
fn index_of(term: &BoundTerm, env: &EvalEnv<'_>) -> Result<Option<i32>> {
    match term.value(env)? {
        BoundValue::Unset => Ok(None),
        BoundValue::Null => Err(invalid("Invalid null value for list index")),
        BoundValue::Bytes(bytes) => Ok(Some(i32::from_be_bytes(fixed(&bytes, "a list index")?))),
    }
}

/// Returns the number and type of a field.
fn field_of(user: &firn_wide::UserType, column: &str, field: &str) -> Result<(u16, Type)> {
    let found = (0u16..).zip(user.fields.iter()).find(|(_, (name, _))| name == field);
    let (number, (_, of)) =
        found.ok_or_else(|| invalid!("UDT column {column} does not have a field named {field}"))?;
    Ok((number, of.clone()))
}

//! `USING TIMESTAMP … AND TTL …`.

use crate::catalog::TableSchema;
use firn_wide::Type;

use crate::error::{Result, bail, bail_if, invalid};
use crate::syntax::ast;
use crate::values::{BoundTerm, BoundValue, Context, EvalEnv, Receiver, heap_bytes};

/// Maximum TTL in seconds: twenty years.
const MAX_TTL: i32 = 20 * 365 * 24 * 60 * 60;

/// Prepared attributes of a statement's writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    timestamp: Option<BoundTerm>,
    ttl: Option<BoundTerm>,
}

heap_bytes!(Attributes { timestamp, ttl });

impl Attributes {
    /// Prepares the attributes of a statement on this table (`[batch]` for a whole batch).
    pub fn prepare(
        using: &ast::Using<'_>,
        table: &TableSchema,
        context: &mut Context<'_>,
    ) -> Result<Attributes> {
        Attributes::prepare_in(using, (&table.keyspace, &table.name), context)
    }

    /// Like [`prepare`](Attributes::prepare); markers have this keyspace and table.
    pub fn prepare_in(
        using: &ast::Using<'_>,
        (keyspace, table): (&str, &str),
        context: &mut Context<'_>,
    ) -> Result<Attributes> {
        let mut prepare = |term: &Option<ast::Term<'_>>, name: &str, of: Type| {
            let receiver = Receiver::without_table(name, of).of_table(keyspace, table);
            term.as_ref().map(|t| BoundTerm::prepare(t, &receiver, context)).transpose()
        };
        Ok(Attributes {
            timestamp: prepare(&using.timestamp, "[timestamp]", Type::Long)?,
            ttl: prepare(&using.ttl, "[ttl]", Type::Int32)?,
        })
    }

    /// Reports whether a timestamp is specified.
    pub fn has_timestamp(&self) -> bool {
        self.timestamp.is_some()
    }

    /// Reports whether a TTL is specified.
    pub fn has_ttl(&self) -> bool {
        self.ttl.is_some()
    }

    /// Returns the specified timestamp in microseconds; `None` if there is none, or if it is unset.
    pub fn timestamp(&self, env: &EvalEnv<'_>) -> Result<Option<i64>> {
        let Some(term) = &self.timestamp else { return Ok(None) };
        let bytes = match term.eval(env)? {
            BoundValue::Unset => return Ok(None),
            BoundValue::Null => bail!("Invalid null value of timestamp"),
            BoundValue::Bytes(bytes) => bytes,
        };
        let timestamp = <[u8; 8]>::try_from(&*bytes)
            .map(i64::from_be_bytes)
            .map_err(|_| invalid("Invalid timestamp value"))?;
        if timestamp == i64::MIN {
            bail!("Out of bound timestamp, must be in [{}, {}]", -i64::MAX, i64::MAX);
        }
        Ok(Some(timestamp))
    }

    /// Returns the TTL in seconds; 0 for none. `default` is the table's TTL.
    pub fn ttl(&self, env: &EvalEnv<'_>, default: u32) -> Result<u32> {
        let Some(term) = &self.ttl else { return Ok(default) };
        let bytes = match term.eval(env)? {
            BoundValue::Unset => return Ok(default),
            BoundValue::Null => return Ok(0),
            BoundValue::Bytes(bytes) => bytes,
        };
        let ttl = <[u8; 4]>::try_from(&*bytes)
            .map(i32::from_be_bytes)
            .map_err(|_| invalid("Invalid TTL value"))?;
        bail_if!(ttl > MAX_TTL, "ttl is too large. requested ({ttl}) maximum ({MAX_TTL})");
        u32::try_from(ttl)
            .map_err(|_| invalid!("A TTL must be greater or equal to 0, but was {ttl}"))
    }
}

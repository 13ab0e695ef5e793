//! Answers a message: reads the call, executes it, and writes the reply.

use super::binary::{MessageKind, ThriftCall, ThriftValue};
use super::fault::ThriftError;
use super::fields::ThriftFields;
use super::session::ThriftSession;
use crate::node::{Node, RequestTrace};

impl ThriftSession {
    /// Executes the call in a message and appends the reply. Returns false, without a reply, for a
    /// call that expects none.
    ///
    /// # Errors
    /// The reason why the message is malformed.
    pub fn answer(
        &mut self,
        node: &Node,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, &'static str> {
        let call = ThriftCall::read(message).map_err(|e| e.0)?;
        let trace = self.traced.take().and_then(|known| {
            Some(RequestTrace::begin(&node.env, Some(known), call.method, self.peer, self.local?))
        });
        let done =
            ThriftFields::of("arguments", &call.arguments).and_then(|fields| match self.is_old {
                true => self.call_of_0_4(call.method, fields),
                false => self.call(call.method, fields),
            });
        let done = done.and_then(|value| self.with_room(value));
        if let Some(mut trace) = trace {
            trace.event(&match &done {
                Ok(_) => "Request complete".to_owned(),
                // A syntax error quotes the statement, which may contain a password.
                Err(_) if call.method.contains("cql") => "Refused".to_owned(),
                Err(fault) => format!("Refused: {fault}"),
            });
            trace.finish(&node.traces);
        }
        if let Some(code) = done.as_ref().err().and_then(ThriftError::code) {
            self.meter.failed(code);
        }
        if call.is_oneway {
            return Ok(false);
        }
        match done {
            Ok(value) => {
                let fields = value.map(|value| (0, value)).into_iter().collect();
                call.put_answer(out, MessageKind::Reply, &ThriftValue::Struct(fields));
            }
            Err(fault) => match fault.field(call.method) {
                Some(field) => {
                    call.put_answer(out, MessageKind::Reply, &ThriftValue::Struct(vec![field]));
                }
                None => call.put_answer(out, MessageKind::Exception, &fault.application()),
            },
        }
        Ok(true)
    }
}

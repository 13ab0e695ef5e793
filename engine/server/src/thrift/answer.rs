//! Answers a message: reads the call, executes it, and writes the reply.

use super::binary::{MessageHead, MessageKind, ThriftMessage, element};
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
        let ThriftMessage { head, fields } = ThriftMessage::call(message).map_err(|e| e.0)?;
        let trace = self.traced.take().and_then(|known| {
            Some(RequestTrace::begin(&node.env, Some(known), head.method, self.peer, self.local?))
        });
        let start = out.len();
        MessageHead { kind: MessageKind::Reply, ..head }.put(out);
        let arguments = ThriftFields::new("arguments", fields);
        let done = match self.is_old {
            true => self.call_of_0_4(head.method, &arguments, out),
            false => self.call(head.method, &arguments, out),
        };
        if let Some(mut trace) = trace {
            trace.event(&match &done {
                Ok(_) => "Request complete".to_owned(),
                // A syntax error quotes the statement, which may contain a password.
                Err(_) if head.method.contains("cql") => "Refused".to_owned(),
                Err(fault) => format!("Refused: {fault}"),
            });
            trace.finish(&node.traces);
        }
        if let Some(code) = done.as_ref().err().and_then(ThriftError::code) {
            self.meter.failed(code);
        }
        if head.kind == MessageKind::Oneway {
            out.truncate(start);
            return Ok(false);
        }
        match done {
            Ok(()) => out.push(element::STOP),
            Err(fault) => {
                out.truncate(start);
                fault.put(head, out);
            }
        }
        Ok(true)
    }
}

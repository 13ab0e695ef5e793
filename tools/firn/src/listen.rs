//! Addresses of command lines to listen at.

use std::net::{SocketAddr, ToSocketAddrs};

/// Parses an address to listen at: `ADDRESS:PORT`, `NAME:PORT`, or a port of this machine.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    if let Some(port) = text.strip_prefix(':') {
        return Err(format!(
            "name the address: 127.0.0.1:{port} for this machine, 0.0.0.0:{port} for all"
        ));
    }
    let mut all = text
        .to_socket_addrs()
        .map_err(|e| format!("{e}; give ADDRESS:PORT, for example 127.0.0.1:9042"))?;
    all.next().ok_or_else(|| "the name has no address".to_owned())
}

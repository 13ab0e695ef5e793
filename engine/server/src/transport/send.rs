//! How bytes are sent without waiting.

use std::net::TcpStream;

/// Sends what a connection takes without waiting: how many bytes.
#[cfg(unix)]
pub fn send_some(socket: &TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    use rustix::io::Errno;
    use rustix::net::{SendFlags, send};
    // Where there is no such flag, the standard library has told the socket.
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::DONTWAIT;
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut sent = 0;
    while sent < bytes.len() {
        match send(socket, &bytes[sent..], flags) {
            Ok(n) => sent += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(sent)
}

/// Sends what a connection takes without waiting: nothing, where nobody can say.
#[cfg(not(unix))]
pub fn send_some(_socket: &TcpStream, _bytes: &[u8]) -> std::io::Result<usize> {
    Ok(0)
}

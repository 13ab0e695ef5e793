//! Non-blocking sends.

use std::net::TcpStream;

/// Sends as much as the socket accepts without waiting. Returns the number of bytes.
#[cfg(unix)]
pub fn send_some(socket: &TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    use rustix::io::Errno;
    use rustix::net::{SendFlags, send};
    // Platforms without MSG_NOSIGNAL: the standard library has set the option of the socket.
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

/// Sends nothing: this platform has no non-blocking send here.
#[cfg(not(unix))]
pub fn send_some(_socket: &TcpStream, _bytes: &[u8]) -> std::io::Result<usize> {
    Ok(0)
}

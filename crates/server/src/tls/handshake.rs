//! The first bytes of a connection to a port that encrypts: the handshake, bounded in time, and a word for
//! who came with plain HTTP.

use super::Tls;
use std::io;
use std::time::Duration;
use teamlamp_clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take, from the connection's beginning.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long it is waited for who came with plain HTTP to read why that is wrong.
const TOLD: Duration = Duration::from_secs(1);
/// How much of what they sent is thrown away for that.
const THROWN_AWAY: u64 = 256 << 10;
/// The first byte of every TLS handshake (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;

const PLAIN: &str = "{\"error\":{\"code\":\"invalid_request\",\"message\":\
    \"This port speaks TLS: ask it with https, or join again with a new invitation.\"}}";

/// Does the handshake of one connection. `None` where the other side spoke plain HTTP, and was told so.
///
/// # Errors
/// Nothing in time, or a handshake that failed.
pub(crate) async fn handshake(
    socket: TcpStream,
    tls: &Tls,
    clock: &Clock,
) -> io::Result<Option<TlsStream<TcpStream>>> {
    let begun = async {
        let mut first = [0];
        let count = socket.peek(&mut first).await?;
        if count == 1 && first[0] != HANDSHAKE_RECORD {
            return Ok(Err(socket));
        }
        TlsAcceptor::from(tls.config.clone()).accept(socket).await.map(Ok)
    };
    match clock.within(HANDSHAKE, begun).await {
        Some(Ok(Ok(stream))) => Ok(Some(stream)),
        Some(Ok(Err(socket))) => {
            clock.within(TOLD, tell(socket)).await;
            Ok(None)
        }
        Some(Err(fault)) => Err(fault),
        None => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn tell(mut socket: TcpStream) {
    let length = PLAIN.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json; charset=utf-8\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{PLAIN}"
    );
    if socket.write_all(answer.as_bytes()).await.is_ok() && socket.shutdown().await.is_ok() {
        // Closing over what was not read would reset the connection before the answer was read.
        let _ = tokio::io::copy(&mut socket.take(THROWN_AWAY), &mut tokio::io::sink()).await;
    }
}

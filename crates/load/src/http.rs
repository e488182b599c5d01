//! As little HTTP as a load needs: one request on one connection, from a loopback address of choice (the
//! server counts what comes without a credential by address), and a stream read as it comes.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Who asks, from where. It holds a token, so it never prints itself.
#[derive(Clone, Default)]
pub(crate) struct From {
    /// The last byte of the loopback address.
    pub(crate) place: u8,
    /// The bearer token; empty for none.
    pub(crate) token: String,
}

async fn connect(to: SocketAddr, from: &From) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::new(127, 0, 1, from.place.max(1)), 0).into())?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn head(method: &str, path: &str, to: SocketAddr, from: &From, more: &str) -> String {
    let token = if from.token.is_empty() {
        String::new()
    } else {
        format!("authorization: Bearer {}\r\n", from.token)
    };
    format!("{method} {path} HTTP/1.1\r\nhost: {to}\r\n{token}{more}\r\n")
}

/// One request; its JSON answer, or an error that names the refusal.
pub(crate) async fn call(
    to: SocketAddr,
    from: &From,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Value> {
    let mut stream = connect(to, from).await?;
    let body = body.to_string();
    let more =
        format!("content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    stream.write_all(head(method, path, to, from, &more).as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let text = String::from_utf8(answer)?;
    let (head, body) = text.split_once("\r\n\r\n").context("an answer has a head")?;
    let status: u16 = head.split_whitespace().nth(1).context("a status")?.parse()?;
    if status >= 400 {
        bail!("{method} {path}: {status} {body}");
    }
    serde_json::from_str(body.trim()).with_context(|| format!("{method} {path} answered {body}"))
}

/// A connection kept for many requests, for measuring what one costs.
pub(crate) struct Kept {
    stream: TcpStream,
    to: SocketAddr,
    from: From,
    buffer: Vec<u8>,
}

impl Kept {
    pub(crate) async fn open(to: SocketAddr, from: From) -> Result<Self> {
        Ok(Self { stream: connect(to, &from).await?, to, from, buffer: vec![0; 1 << 16] })
    }

    /// Sends a body and reads its answer; the status.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<u16> {
        let more = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let head = head("POST", path, self.to, &self.from, &more);
        self.stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(filled * 2, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                bail!("the server closed the connection");
            }
            filled += read;
            let text = std::str::from_utf8(&self.buffer[..filled])?;
            let Some((head, rest)) = text.split_once("\r\n\r\n") else { continue };
            let length = head
                .lines()
                .find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if rest.len() >= length.unwrap_or(0usize) {
                return Ok(head.split_whitespace().nth(1).context("a status")?.parse()?);
            }
        }
    }
}

/// Opens a stream of events and waits for its first bytes.
pub(crate) async fn follow(to: SocketAddr, from: &From, path: &str) -> Result<TcpStream> {
    let mut stream = connect(to, from).await?;
    let head = head("GET", path, to, from, "accept: text/event-stream\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut first = [0; 1024];
    let read = stream.read(&mut first).await?;
    let text = String::from_utf8_lossy(&first[..read]);
    if !text.starts_with("HTTP/1.1 200") {
        bail!("GET {path}: {text}");
    }
    Ok(stream)
}

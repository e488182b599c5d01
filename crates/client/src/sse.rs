//! From the bytes of an answer to the messages of an event stream, by `eventsource-stream`. This module
//! owns what stands before that parser: whole lines of bounded length, decoded as the HTML standard says.
//!
//! Fed with lines rather than chunks the parser is linear in its input, and three of its deviations from
//! the standard can't show: it panics on a byte order mark, waits for the byte after a CR before it
//! dispatches, and keeps bytes that are no UTF-8 for ever.

use crate::error::TransportFault;
use crate::transport::Body;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use std::collections::VecDeque;
use std::time::Duration;
use teamlamp_clock::Clock;
use teamlamp_wire::limits::STREAM_LINE_BYTES;

/// The lines of one message together.
const MESSAGE_BYTES: usize = 4 * STREAM_LINE_BYTES;

/// One message of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The last event id, which a message without one inherits.
    pub(crate) id: String,
    /// Its `data` lines, joined by LF.
    pub(crate) data: String,
}

/// Why an event stream ends but by its own end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamFault {
    /// The connection broke.
    Broken(TransportFault),
    /// No byte came for this long.
    Silent(Duration),
    /// It breaks a rule.
    Rules(&'static str),
}

/// The messages of a body, which ends where `silence` passes without a byte.
pub(crate) fn messages(
    body: Body,
    clock: Clock,
    silence: Duration,
) -> BoxStream<'static, Result<Message, StreamFault>> {
    // The parser looks for a byte order mark at its first character and would panic on one. An empty
    // line before everything else is no message, and takes that place.
    let first = stream::iter([Ok("\n".to_owned())]);
    let events = EventStream::new(first.chain(lines(body, clock, silence)));
    events
        .map(|event| match event {
            Ok(event) => Ok(Message { id: event.id, data: event.data }),
            Err(EventStreamError::Transport(fault)) => Err(fault),
            Err(_) => Err(StreamFault::Rules("a line can't be read")),
        })
        .boxed()
}

fn lines(body: Body, clock: Clock, silence: Duration) -> BoxStream<'static, Result<String, StreamFault>> {
    struct Reading {
        body: Body,
        clock: Clock,
        splitter: Splitter,
        ready: VecDeque<String>,
        failed: Option<StreamFault>,
    }
    let reading =
        Reading { body, clock, splitter: Splitter::default(), ready: VecDeque::new(), failed: None };
    stream::unfold(Some(reading), move |reading| async move {
        let mut it = reading?;
        loop {
            if let Some(line) = it.ready.pop_front() {
                return Some((Ok(line), Some(it)));
            }
            if let Some(fault) = it.failed {
                return Some((Err(fault), None));
            }
            match it.clock.within(silence, it.body.next()).await {
                None => it.failed = Some(StreamFault::Silent(silence)),
                Some(None) => return None,
                Some(Some(Err(fault))) => it.failed = Some(StreamFault::Broken(fault)),
                Some(Some(Ok(chunk))) => it.failed = it.splitter.split(&chunk, &mut it.ready).err(),
            }
        }
    })
    .boxed()
}

/// Cuts bytes into lines, each ended by one LF.
#[derive(Default)]
struct Splitter {
    started: bool,
    after_cr: bool,
    line: Vec<u8>,
    message_bytes: usize,
}

impl Splitter {
    /// CR, LF and CRLF end a line; no other character does. A CR ends it at once.
    fn split(&mut self, mut chunk: &[u8], out: &mut VecDeque<String>) -> Result<(), StreamFault> {
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let end = chunk.iter().position(|b| matches!(b, b'\r' | b'\n'));
            self.line.extend_from_slice(&chunk[..end.unwrap_or(chunk.len())]);
            if self.line.len() > STREAM_LINE_BYTES {
                return Err(StreamFault::Rules("a line is longer than 1 MiB"));
            }
            let Some(end) = end else { break };
            self.after_cr = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            out.push_back(self.take_line()?);
        }
        Ok(())
    }

    fn take_line(&mut self) -> Result<String, StreamFault> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        self.message_bytes = if line.is_empty() { 0 } else { self.message_bytes + line.len() };
        if self.message_bytes > MESSAGE_BYTES {
            return Err(StreamFault::Rules("a message is longer than 4 MiB"));
        }
        line.push(b'\n');
        // A line's end can't stand inside a character, so that a line is decoded by itself.
        Ok(String::from_utf8(line).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FaultKind;
    use bytes::Bytes;

    async fn read_chunks(chunks: Vec<Vec<u8>>) -> Vec<Result<Message, StreamFault>> {
        let body = stream::iter(chunks.into_iter().map(|c| Ok(Bytes::from(c)))).boxed();
        messages(body, Clock::starting_at(0), Duration::from_secs(40)).collect().await
    }

    async fn read(text: &[u8]) -> Vec<(String, String)> {
        let all = read_chunks(vec![text.to_vec()]).await;
        all.into_iter().map(|m| m.unwrap()).map(|m| (m.id, m.data)).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(id, data)| (id.to_string(), data.to_string())).collect()
    }

    /// Comments, ids, several data lines, CR, LF, CRLF, multi-byte characters, and characters that other
    /// programs take for line ends.
    const MIXED: &str = "\u{feff}: padding\nretry: 1000\n\ndata: {\"a\":\"é😀\u{2028}\u{85}\"}\nid: c1\n\n\
                         data:one\r\ndata: two\r\nid:c2\r\n\r\ndata: three\rid: c3\r\r:\n\ndata\n\n\
                         unknown: x\nevent: y\ndata:  four\n\n";

    fn mixed() -> Vec<(String, String)> {
        pairs(&[
            ("c1", "{\"a\":\"é😀\u{2028}\u{85}\"}"),
            ("c2", "one\ntwo"),
            ("c3", "three"),
            ("c3", ""),
            ("c3", " four"),
        ])
    }

    #[tokio::test]
    async fn a_stream_reads_the_same_wherever_its_bytes_are_split() {
        assert_eq!(read(MIXED.as_bytes()).await, mixed());
        for cut in 0..=MIXED.len() {
            let (head, tail) = MIXED.as_bytes().split_at(cut);
            let all = read_chunks(vec![head.to_vec(), Vec::new(), tail.to_vec()]).await;
            let all: Vec<_> = all.into_iter().map(|m| m.unwrap()).map(|m| (m.id, m.data)).collect();
            assert_eq!(all, mixed(), "split at byte {cut}");
        }
        let single = MIXED.bytes().map(|b| vec![b]).collect();
        let all = read_chunks(single).await;
        assert_eq!(all.len(), mixed().len());
    }

    #[tokio::test]
    async fn a_byte_order_mark_is_skipped_once_and_only_at_the_start() {
        assert_eq!(read("\u{feff}data: a\n\n".as_bytes()).await, pairs(&[("", "a")]));
        assert_eq!(read("\u{feff}\u{feff}data: a\n\ndata: b\n\n".as_bytes()).await, pairs(&[("", "b")]));
        assert_eq!(read("data: \u{feff}a\n\n".as_bytes()).await, pairs(&[("", "\u{feff}a")]));
        assert_eq!(read("data: a\n\n\u{feff}data: b\n\n".as_bytes()).await, pairs(&[("", "a")]));
    }

    #[tokio::test]
    async fn an_id_with_nul_is_ignored_and_an_empty_one_clears() {
        let text = b"id: a\ndata: 1\n\nid: b\0c\ndata: 2\n\nid\ndata: 3\n\n";
        assert_eq!(read(text).await, pairs(&[("a", "1"), ("a", "2"), ("", "3")]));
    }

    #[tokio::test]
    async fn bytes_that_are_no_utf8_are_replaced_and_the_stream_goes_on() {
        let text = b"data: a\xff\xe2\x82\n\ndata: b\n\n";
        assert_eq!(read(text).await, pairs(&[("", "a\u{fffd}\u{fffd}"), ("", "b")]));
    }

    #[tokio::test]
    async fn a_cr_dispatches_at_once_and_a_message_cut_off_is_none() {
        let body = stream::iter([Ok(Bytes::from("data: a\r\r"))]).chain(stream::pending()).boxed();
        let mut all = messages(body, Clock::starting_at(0), Duration::from_secs(40));
        assert_eq!(all.next().await.unwrap().unwrap().data, "a");
        assert_eq!(read(b"data: a\n\ndata: cut off\n").await, pairs(&[("", "a")]));
    }

    #[tokio::test]
    async fn a_line_may_have_a_mebibyte_and_not_more() {
        let line = |bytes: usize| format!("data:{}\n\n", "x".repeat(bytes - 5)).into_bytes();
        assert_eq!(read(&line(STREAM_LINE_BYTES)).await[0].1.len(), STREAM_LINE_BYTES - 5);
        let fault = read_chunks(vec![b"data: before\n\n".to_vec(), line(STREAM_LINE_BYTES + 1)]).await;
        assert_eq!(fault.len(), 2);
        assert_eq!(fault[0].as_ref().unwrap().data, "before");
        assert_eq!(fault[1], Err(StreamFault::Rules("a line is longer than 1 MiB")));
        let endless = read_chunks(vec![b": comment without end".repeat(60_000)]).await;
        assert!(matches!(endless[..], [Err(StreamFault::Rules(_))]));
        let many = read_chunks(vec![b"data: many lines\n".repeat(300_000)]).await;
        assert!(matches!(many[..], [Err(StreamFault::Rules(_))]));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_stream_and_a_comment_is_no_silence() {
        let clock = Clock::starting_at(0);
        let ticks = stream::unfold(0, {
            let clock = clock.clone();
            move |n| {
                let clock = clock.clone();
                async move {
                    clock.sleep(Duration::from_secs(if n < 3 { 39 } else { 41 })).await;
                    Some((Ok(Bytes::from(":\n")), n + 1))
                }
            }
        });
        let all: Vec<_> = messages(ticks.boxed(), clock.clone(), Duration::from_secs(40)).collect().await;
        assert_eq!(all, [Err(StreamFault::Silent(Duration::from_secs(40)))]);
        assert_eq!(clock.now_ms(), (3 * 39 + 40) * 1_000);
    }

    #[tokio::test]
    async fn what_came_before_a_break_is_still_read() {
        let fault = TransportFault::new(FaultKind::Reset, "x", "y");
        let body = stream::iter([Ok(Bytes::from("data: a\n\ndata: b")), Err(fault.clone())]).boxed();
        let all: Vec<_> = messages(body, Clock::starting_at(0), Duration::from_secs(40)).collect().await;
        assert_eq!(all.len(), 2);
        assert_eq!(all[1], Err(StreamFault::Broken(fault)));
    }
}

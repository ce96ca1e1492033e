//! A client of a few lines: it sees every byte that the server sends.

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// No answer may take longer.
const LIMIT: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream, whose last one has to be `[DONE]`.
    pub fn events(&self) -> Vec<Value> {
        let mut events: Vec<&str> = self.body.split_terminator("\n\n").collect();
        assert_eq!(events.pop(), Some("data: [DONE]"), "{self:?}");
        let data = events.iter().map(|event| event.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data.unwrap()).unwrap())
            .collect()
    }

    /// The code of an error.
    pub fn code(&self) -> String {
        let code = &self.json()["error"]["code"];
        code.as_str().unwrap_or_default().to_owned()
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Sends bytes as they are, and reads the answer.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = connect(address);
    // A server that refuses early may close before it has read all.
    let _ = stream.write_all(bytes);
    reply(&mut BufReader::new(stream))
}

/// Reads an answer to its end.
pub fn reply(stream: &mut impl BufRead) -> Reply {
    let head = head(stream);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let lower = head.to_lowercase();
    let length = lower
        .split_once("content-length: ")
        .map(|(_, rest)| rest.split("\r\n").next().unwrap().parse().unwrap());
    let mut body = Vec::new();
    match length {
        Some(length) => stream
            .take(length)
            .read_to_end(&mut body)
            .map(drop)
            .unwrap(),
        None => while piece(stream, &mut body) {},
    }
    Reply {
        status,
        head,
        body: String::from_utf8(body).unwrap(),
    }
}

/// The lines before the body.
pub fn head(stream: &mut impl BufRead) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "ended: {head}");
    }
    head
}

/// Reads a chunk of a body; whether it was not the last.
pub fn piece(stream: &mut impl BufRead, body: &mut Vec<u8>) -> bool {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let length = u64::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("{line:?}"));
    let before = body.len();
    stream.take(length + 2).read_to_end(body).unwrap();
    body.truncate(before + length as usize);
    length > 0
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    raw(address, head.as_bytes())
}

/// The bytes of a request with a body.
pub fn posted(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    (head + body).into_bytes()
}

pub fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    raw(address, &posted(path, &body.to_string()))
}

pub fn complete(address: SocketAddr, body: &Value) -> Reply {
    post(address, "/v1/completions", body)
}

/// The value of a metric.
pub fn metric(address: SocketAddr, name: &str) -> f64 {
    let page = get(address, "/metrics").body;
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name}: {page}"))
        .trim()
        .parse()
        .unwrap()
}

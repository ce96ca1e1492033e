//! What a client may not have is refused, and what it does slowly ends.

use crate::{
    client::{complete, connect, get, head, piece, posted, raw, reply},
    server::{Given, Server},
    sharing::{endless, wait_for},
};
use fascicle_serve::{Keys, Limits};
use serde_json::json;
use std::{
    io::{BufReader, Read, Write},
    time::Duration,
};

fn limited(edit: impl FnOnce(&mut Limits)) -> Server {
    let mut given = Given::default();
    edit(&mut given.limits);
    Server::start(given)
}

#[test]
fn bodies_and_tokens_have_a_limit() {
    let server = limited(|limits| (limits.body_bytes, limits.tokens) = (200, 20));
    let long = complete(server.address, &json!({"prompt": "a".repeat(200)}));
    assert_eq!((long.status, &*long.code()), (413, "body_too_long"));
    // Without a length, the bytes count as they come.
    let chunk = format!("c8\r\n{}\r\n", "a".repeat(200));
    let head = "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let long = raw(
        server.address,
        format!("{head}{chunk}{chunk}0\r\n\r\n").as_bytes(),
    );
    assert_eq!(long.status, 413);
    let beyond = complete(server.address, &json!({"prompt": "abc", "max_tokens": 18}));
    assert_eq!(
        (beyond.status, &*beyond.code()),
        (400, "context_length_exceeded")
    );
    assert_eq!(
        complete(server.address, &json!({"prompt": "abc", "max_tokens": 17})).status,
        200
    );
    // A request that names no number gets what is left.
    let answer = complete(server.address, &json!({"prompt": "a".repeat(15)})).json();
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    let full = complete(server.address, &json!({"prompt": "a".repeat(20)}));
    assert_eq!(full.code(), "context_length_exceeded");
}

#[test]
fn a_full_queue_is_refused_until_someone_leaves() {
    let server = limited(|limits| (limits.running, limits.waiting) = (1, 1));
    let (running, waiting) = (endless(server.address), {
        let mut stream = connect(server.address);
        let body = json!({"prompt": "b", "max_tokens": 5, "temperature": 0});
        stream
            .write_all(&posted("/v1/completions", &body.to_string()))
            .unwrap();
        stream
    });
    wait_for(server.address, "fascicle_waiting_sequences ", 1.0);
    let refused = complete(server.address, &json!({"prompt": "c"}));
    assert_eq!((refused.status, &*refused.code()), (429, "queue_full"));
    assert!(refused.head.to_lowercase().contains("retry-after: 1\r\n"));
    let never = complete(server.address, &json!({"prompt": "c", "n": 3}));
    assert_eq!(never.status, 400);
    drop(running);
    assert_eq!(reply(&mut BufReader::new(waiting)).status, 200);
    assert_eq!(
        complete(server.address, &json!({"prompt": "c"})).status,
        200
    );
}

#[test]
fn a_request_that_takes_too_long_ends_and_frees_its_place() {
    let server = limited(|limits| limits.request = Duration::from_millis(200));
    let refused = complete(
        server.address,
        &json!({"prompt": "a", "max_tokens": 500_000}),
    );
    assert_eq!((refused.status, &*refused.code()), (504, "timeout"));
    let (mut stream, mut body) = (endless(server.address), Vec::new());
    while piece(&mut stream, &mut body) {}
    let body = String::from_utf8(body).unwrap();
    let last = body.split_terminator("\n\n").last().unwrap();
    assert!(last.contains("\"code\":\"timeout\""), "{last}");
    wait_for(server.address, "fascicle_running_sequences ", 0.0);
}

#[test]
fn connections_have_a_limit_and_slow_clients_an_end() {
    let server = limited(|limits| {
        (limits.connections, limits.client) = (2, Duration::from_millis(300));
    });
    let address = server.address;
    let mut idle = connect(address);
    let mut begun = connect(address);
    begun.write_all(b"GET /health HTT").unwrap();
    // Both are counted once the server has taken them.
    let mut full = connect(address);
    let mut text = String::new();
    full.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.contains("too_many_connections"), "{text}");
    // Neither holds its place longer than a client has time.
    for stream in [&mut idle, &mut begun] {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(
            rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"),
            "{rest:?}"
        );
    }
    wait_for(address, "fascicle_connections ", 1.0);
    let mut slow = connect(address);
    let all = posted("/v1/completions", "{\"prompt\": \"a\"}");
    slow.write_all(&all[..all.len() - 3]).unwrap();
    assert!(head(&mut BufReader::new(slow)).starts_with("HTTP/1.1 408 "));
    assert_eq!(get(address, "/health").status, 200);
}

#[test]
fn with_keys_only_those_who_have_one_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, "secret-1\nsecret-2\n").unwrap();
    let server = Server::start(Given {
        keys: Keys::read(&path).unwrap(),
        ..Given::default()
    });
    let models = |header: &str| {
        let head = "GET /v1/models HTTP/1.1\r\nHost: test\r\nConnection: close\r\n";
        raw(server.address, format!("{head}{header}\r\n").as_bytes())
    };
    let refused = models("");
    assert_eq!((refused.status, &*refused.code()), (401, "invalid_api_key"));
    assert_eq!(models("Authorization: Bearer secret-3\r\n").status, 401);
    assert_eq!(models("Authorization: Bearer secret-2\r\n").status, 200);
    assert_eq!(
        complete(server.address, &json!({"prompt": "a"})).status,
        401
    );
    assert_eq!(get(server.address, "/health").status, 200);
}

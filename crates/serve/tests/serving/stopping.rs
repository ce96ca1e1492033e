//! A server that is asked to stop answers what it has, within its grace.

use crate::{
    client::{complete, connect, head, piece, posted},
    server::{Given, Server},
    sharing::endless,
};
use fascicle_serve::Limits;
use serde_json::json;
use std::{
    io::{BufReader, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

#[test]
fn what_runs_is_answered_and_nobody_else_is() {
    let mut server = Server::start(Given {
        grid: "x=2",
        ..Given::default()
    });
    let body = json!({"prompt": "a", "max_tokens": 300, "temperature": 0, "stream": true});
    let mut stream = connect(server.address);
    stream
        .write_all(&posted("/v1/completions", &body.to_string()))
        .unwrap();
    let (mut stream, mut body) = (BufReader::new(stream), Vec::new());
    head(&mut stream);
    piece(&mut stream, &mut body);
    server.stop.ask();
    while piece(&mut stream, &mut body) {}
    let body = String::from_utf8(body).unwrap();
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
    assert!(body.contains("\"finish_reason\":\"length\""), "{body}");
    drop(stream);
    server.ended().unwrap();
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn what_runs_longer_than_the_grace_is_told_so() {
    let mut server = Server::start(Given {
        limits: Limits {
            tokens: 1 << 20,
            grace: Duration::from_millis(300),
            ..Limits::default()
        },
        ..Given::default()
    });
    let (mut stream, mut body) = (endless(server.address), Vec::new());
    let idle = connect(server.address);
    server.stop.ask();
    while piece(&mut stream, &mut body) {}
    let body = String::from_utf8(body).unwrap();
    let last = body.split_terminator("\n\n").last().unwrap();
    assert!(last.contains("\"code\":\"stopping\""), "{last}");
    let begun = Instant::now();
    server.ended().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(idle);
}

#[test]
fn a_step_that_fails_ends_the_server_with_a_sentence() {
    let mut server = Server::start(Given {
        grid: "x=2",
        edit: "init_deviation = 0.4 -> init_deviation = 1e38",
        ..Given::default()
    });
    let reply = complete(server.address, &json!({"prompt": "a"}));
    assert_eq!((reply.status, &*reply.code()), (503, "stopping"));
    let report = server.ended().unwrap_err();
    assert!(report.contains("needs finite numbers"), "{report}");
}

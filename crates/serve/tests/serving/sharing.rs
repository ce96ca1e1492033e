//! Clients share steps, and one that leaves gives its place back.

use crate::{
    client::{complete, connect, head, metric, piece, posted},
    server::{Given, Server},
};
use serde_json::{Value, json};
use std::{
    io::{BufReader, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// More tokens than a test waits for.
const ENDLESS: usize = 500_000;

/// A stream that has begun.
pub fn endless(address: SocketAddr) -> BufReader<TcpStream> {
    let body = json!({"prompt": "a", "max_tokens": ENDLESS, "temperature": 0, "stream": true});
    let mut stream = connect(address);
    stream
        .write_all(&posted("/v1/completions", &body.to_string()))
        .unwrap();
    let mut stream = BufReader::new(stream);
    assert!(head(&mut stream).contains(" 200 "));
    assert!(piece(&mut stream, &mut Vec::new()));
    stream
}

/// Waits until a metric has this value.
pub fn wait_for(address: SocketAddr, name: &str, value: f64) {
    let begun = Instant::now();
    while metric(address, name) != value {
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}: {value}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn clients_share_steps_and_get_the_tokens_that_each_gets_alone() {
    let server = Server::start(Given {
        grid: "x=2",
        ..Given::default()
    });
    let address = server.address;
    let bodies: Vec<Value> = (0..4)
        .map(|seed| json!({"prompt": format!("text {seed}"), "max_tokens": 40, "seed": seed}))
        .collect();
    let ask = move |body: &Value| complete(address, body).json()["choices"].clone();
    let alone: Vec<Value> = bodies.iter().map(ask).collect();
    // One that does not end runs beside all others.
    let running = endless(address);
    let clients: Vec<_> = bodies
        .into_iter()
        .map(|body| thread::spawn(move || ask(&body)))
        .collect();
    let beside: Vec<Value> = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .collect();
    assert_eq!(beside, alone);
    wait_for(address, "fascicle_running_sequences ", 1.0);
    drop(running);
    wait_for(address, "fascicle_running_sequences ", 0.0);
    assert_eq!(metric(address, "fascicle_cancelled_sequences_total "), 1.0);
    assert!(metric(address, "fascicle_generated_tokens_total ") < ENDLESS as f64);
}

#[test]
fn a_text_that_begins_like_another_runs_the_rest_alone() {
    let server = Server::start(Given {
        grid: "x=2",
        ..Given::default()
    });
    let ask_for = |choices: usize, prompt: &str| {
        let body = json!({"prompt": prompt, "max_tokens": 4, "temperature": 0, "n": choices});
        complete(server.address, &body).json()
    };
    let ask = |prompt: &str| ask_for(1, prompt);
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    let reused = || metric(server.address, "fascicle_reused_tokens_total ");
    let first = ask("a prompt of 25 characters");
    assert_eq!(reused(), 0.0);
    assert_eq!(cached(&first), 0);
    let again = ask("a prompt of 25 characters");
    assert_eq!(again["choices"], first["choices"]);
    assert_eq!(cached(&again), 24);
    // One token has to be run.
    wait_for(server.address, "fascicle_reused_tokens_total ", 24.0);
    assert_eq!(cached(&ask("a prompt of 25 chairs")), 18);
    wait_for(server.address, "fascicle_reused_tokens_total ", 24.0 + 18.0);
    // The tokens of a prompt count once.
    let both = ask_for(2, "a prompt of 25 chairs");
    assert_eq!(both["usage"]["prompt_tokens"], 21);
    assert_eq!(cached(&both), 20);
}

#[test]
fn a_client_that_waits_for_a_whole_answer_and_leaves_frees_its_place_too() {
    let server = Server::start(Given::default());
    let body = json!({"prompt": "a", "max_tokens": ENDLESS, "n": 3});
    let mut stream = connect(server.address);
    stream
        .write_all(&posted("/v1/completions", &body.to_string()))
        .unwrap();
    wait_for(server.address, "fascicle_running_sequences ", 3.0);
    drop(stream);
    wait_for(server.address, "fascicle_running_sequences ", 0.0);
    assert_eq!(
        metric(server.address, "fascicle_cancelled_sequences_total "),
        3.0
    );
}

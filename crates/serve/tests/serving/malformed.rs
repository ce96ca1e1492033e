//! Requests that cannot be are refused with a sentence, and the server answers the next one.

use crate::{
    client::{complete, get, post, posted, raw},
    server::{Given, Server},
};
use serde_json::json;

/// Bodies for completions, with a part of each refusal.
const BODIES: [(&str, &str); 38] = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[]", "needs an object"),
    ("\"a\"", "needs an object"),
    ("{\"prompt\": \"a\"} x", "not JSON"),
    ("\u{0}", "not JSON"),
    ("{}", "prompt: found none"),
    (r#"{"prompt": null}"#, "prompt: found none"),
    (r#"{"prompt": 3}"#, "prompt: found 3"),
    (r#"{"prompt": ""}"#, "found no token"),
    (r#"{"prompt": []}"#, "found no token"),
    (r#"{"prompt": [[]]}"#, "found no token"),
    (r#"{"prompt": ["a", 1]}"#, "prompt: found 1"),
    (r#"{"prompt": [1, "a"]}"#, "prompt: found [1,"),
    (r#"{"prompt": [-1]}"#, "prompt: found [-1]"),
    (r#"{"prompt": [1.5]}"#, "prompt: found [1.5]"),
    (r#"{"prompt": [256]}"#, "token 256"),
    (r#"{"prompt": {"a": 1}}"#, "prompt: found"),
    (r#"{"prompt": "a", "model": "other"}"#, "needs \\\"tiny\\\""),
    (r#"{"prompt": "a", "max_tokens": 0}"#, "max_tokens: found 0"),
    (
        r#"{"prompt": "a", "max_tokens": -1}"#,
        "max_tokens: found -1",
    ),
    (
        r#"{"prompt": "a", "max_tokens": 1e30}"#,
        "max_tokens: found 1e+30",
    ),
    (
        r#"{"prompt": "a", "max_tokens": 18446744073709551615}"#,
        "max_tokens",
    ),
    (
        r#"{"prompt": "a", "temperature": -1}"#,
        "temperature: found -1",
    ),
    (
        r#"{"prompt": "a", "temperature": "hot"}"#,
        "temperature: found",
    ),
    (r#"{"prompt": "a", "top_p": 2}"#, "top_p: found 2"),
    (r#"{"prompt": "a", "min_p": 1.5}"#, "min_p: found 1.5"),
    (r#"{"prompt": "a", "n": 0}"#, "n: found 0"),
    (r#"{"prompt": "a", "n": 129}"#, "n: found 129"),
    (r#"{"prompt": "a", "seed": 0.5}"#, "seed: found 0.5"),
    (r#"{"prompt": "a", "stop": [""]}"#, "stop"),
    (r#"{"prompt": "a", "stop": 1}"#, "stop: found 1"),
    (
        r#"{"prompt": "a", "logprobs": 1000}"#,
        "logprobs: found 1000",
    ),
    (r#"{"prompt": "a", "stream": "yes"}"#, "stream: found"),
    (
        r#"{"prompt": "a", "stream_options": {"a": 1}}"#,
        "stream_options: found",
    ),
    (
        r#"{"prompt": "a", "presence_penalty": 1}"#,
        "cannot honour 1",
    ),
    (r#"{"prompt": "a", "tools": [{}]}"#, "tools: this server"),
    (
        r#"{"prompt": "a", "temprature": 1}"#,
        "temprature: unknown field",
    ),
];

/// Bodies for chats.
const CHATS: [(&str, &str); 8] = [
    ("{}", "messages: found none"),
    (r#"{"messages": []}"#, "messages: found []"),
    (r#"{"messages": "hi"}"#, "messages: found"),
    (r#"{"messages": [{"role": "user"}]}"#, "needs a `content`"),
    (r#"{"messages": [{"content": "hi"}]}"#, "needs a `role`"),
    (
        r#"{"messages": [{"role": "tool", "content": "hi"}]}"#,
        "needs a role",
    ),
    (
        r#"{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}"#,
        "parts of the type text",
    ),
    (
        r#"{"messages": [{"role": "user", "content": "refuse"}]}"#,
        "not with me",
    ),
];

/// What is not even such a request.
const BYTES: [&str; 6] = [
    "GET\r\n\r\n",
    "GET / HTTP/9.9\r\n\r\n",
    "\u{1}\u{2}\u{3}\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: x\r\n\r\n{}",
    "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
];

#[test]
fn nothing_that_a_client_sends_ends_the_server() {
    let template = "{% for m in messages %}{% if m.content == 'refuse' %}{{ raise_exception('not with me') }}{% endif %}\
                    {{ m.content }}{% endfor %}";
    let server = Server::start(Given {
        grid: "x=2",
        template: Some(template),
        ..Given::default()
    });
    let address = server.address;
    let body = json!({"prompt": "a", "max_tokens": 3, "temperature": 0});
    let good = || complete(address, &body).json()["choices"].clone();
    let before = good();
    let completions = BODIES.map(|case| ("/v1/completions", case));
    let chats = CHATS.map(|case| ("/v1/chat/completions", case));
    for (path, (body, needed)) in completions.into_iter().chain(chats) {
        let reply = raw(address, &posted(path, body));
        assert!((400..500).contains(&reply.status), "{body}: {reply:?}");
        assert!(reply.body.contains(needed), "{body}: {reply:?}");
        let error = &reply.json()["error"];
        assert!(error["message"].is_string() && error["type"].is_string());
    }
    let deep = format!("{{\"prompt\": {}", "[".repeat(100_000));
    assert_eq!(raw(address, &posted("/v1/completions", &deep)).status, 400);
    for bytes in BYTES {
        let reply = raw(address, bytes.as_bytes());
        assert!((400..500).contains(&reply.status), "{bytes:?}: {reply:?}");
    }
    assert_eq!(get(address, "/v1/completions").status, 405);
    assert_eq!(get(address, "/nothing").status, 404);
    assert_eq!(post(address, "/health", &json!({})).status, 405);
    assert_eq!(good(), before);
}

#[test]
fn without_a_template_chats_are_refused_with_what_to_do() {
    let server = Server::start(Given::default());
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    let reply = post(server.address, "/v1/chat/completions", &body);
    assert_eq!((reply.status, &*reply.code()), (400, "no_chat_template"));
    assert!(reply.body.contains("--chat-template"), "{reply:?}");
}

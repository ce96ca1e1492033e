//! Answers have the tokens of the generator, at once and in pieces, on every grid.

use crate::{
    client::{Reply, complete, get, post},
    server::{Given, Server, direct},
};
use serde_json::{Value, json};
use train::generate::{Request, Sampling};

const GRIDS: [&str; 3] = ["x=1", "x=2", "x=2,pipeline=2"];
const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}\
                        {% if add_generation_prompt %}<assistant>{% endif %}";

fn request(prompt: &str, tokens: usize, sampling: Sampling) -> Request {
    Request {
        prompt: prompt.bytes().map(u32::from).collect(),
        tokens,
        sampling,
        ..Request::default()
    }
}

fn greedy() -> Sampling {
    Sampling {
        top_k: 0,
        ..Sampling::greedy()
    }
}

fn seeded(seed: u64) -> Sampling {
    Sampling {
        temperature: 1.3,
        top_k: 20,
        top_p: 0.95,
        min_p: 0.01,
        repetition_penalty: 1.2,
        seed,
    }
}

fn text(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()["choices"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The text of a stream's choice.
fn streamed(reply: &Reply, index: u64) -> String {
    let events = reply.events();
    let choices = events
        .iter()
        .flat_map(|event| event["choices"].as_array().unwrap());
    let own = choices.filter(|choice| choice["index"] == index);
    own.map(|choice| match choice.get("delta") {
        Some(delta) => delta["content"].as_str().unwrap_or_default(),
        None => choice["text"].as_str().unwrap(),
    })
    .collect()
}

fn with(body: &Value, fields: Value) -> Value {
    let mut body = body.clone();
    let fields = fields.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    body
}

#[test]
fn every_grid_answers_with_the_generators_tokens_at_once_and_in_pieces() {
    // Both go beyond the context of 32.
    let (first, _) = direct(request("fn main", 50, greedy()));
    let (second, _) = direct(request("struct ", 40, seeded(7)));
    for grid in GRIDS {
        let server = Server::start(Given {
            grid,
            ..Given::default()
        });
        let body =
            json!({"model": "tiny", "prompt": "fn main", "max_tokens": 50, "temperature": 0});
        let whole = complete(server.address, &body);
        assert_eq!(text(&whole), first, "{grid}");
        let counts = json!({
            "prompt_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens": 50,
            "total_tokens": 57,
        });
        let answer = whole.json();
        assert_eq!(answer["usage"], counts);
        assert_eq!(answer["choices"][0]["finish_reason"], "length");

        let options = json!({"stream": true, "stream_options": {"include_usage": true}});
        let pieces = complete(server.address, &with(&body, options));
        assert_eq!(streamed(&pieces, 0), first, "{grid}");
        let events = pieces.events();
        assert_eq!(events[events.len() - 1]["usage"], counts);
        let last = &events[events.len() - 2];
        assert_eq!(last["choices"][0]["finish_reason"], "length");

        let body = json!({"prompt": "struct ", "max_tokens": 40, "temperature": 1.3, "top_k": 20, "top_p": 0.95,
            "min_p": 0.01, "repetition_penalty": 1.2, "seed": 7});
        assert_eq!(text(&complete(server.address, &body)), second, "{grid}");
        let pieces = complete(server.address, &with(&body, json!({"stream": true})));
        assert_eq!(streamed(&pieces, 0), second, "{grid}");
    }
}

#[test]
fn several_prompts_and_answers_have_seeds_of_their_own() {
    let server = Server::start(Given::default());
    let body = json!({"prompt": ["ab", "cd"], "n": 2, "max_tokens": 9, "temperature": 1.3, "top_k": 20, "top_p": 0.95,
        "min_p": 0.01, "repetition_penalty": 1.2, "seed": 7, "echo": true});
    let alone = ["ab", "ab", "cd", "cd"].iter().zip(7..);
    let alone = alone.map(|(prompt, seed)| {
        let (text, _) = direct(request(prompt, 9, seeded(seed)));
        format!("{prompt}{text}")
    });
    let alone: Vec<String> = alone.collect();
    let whole = complete(server.address, &body).json();
    let choices = whole["choices"].as_array().unwrap();
    let texts: Vec<&str> = choices
        .iter()
        .map(|choice| choice["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, alone);
    assert_eq!(whole["usage"]["prompt_tokens"], 4);
    assert_eq!(whole["usage"]["completion_tokens"], 36);
    let pieces = complete(server.address, &with(&body, json!({"stream": true})));
    for (index, text) in (0..).zip(&alone) {
        assert_eq!(&streamed(&pieces, index), text);
    }
    let ids = json!({"prompt": [[97, 98], [99, 100]], "max_tokens": 9, "temperature": 0});
    let texts = json!({"prompt": ["ab", "cd"], "max_tokens": 9, "temperature": 0});
    let choices = |body| complete(server.address, body).json()["choices"].clone();
    assert_eq!(choices(&ids), choices(&texts));
}

#[test]
fn a_stop_string_ends_the_text_and_log_probabilities_are_the_models() {
    let server = Server::start(Given::default());
    let asked = Request {
        log_probabilities: Some(2),
        ..request("fn ", 12, greedy())
    };
    let (text, likelihoods) = direct(asked);
    let body = json!({"prompt": "fn ", "max_tokens": 12, "temperature": 0, "logprobs": 2});
    let answer = complete(server.address, &body).json();
    let found = &answer["choices"][0]["logprobs"];
    assert_eq!(found["token_logprobs"], json!(likelihoods));
    assert_eq!(found["top_logprobs"].as_array().unwrap().len(), 12);
    let pieces = complete(server.address, &with(&body, json!({"stream": true})));
    let events = pieces.events();
    let own = events.iter().flat_map(|event| {
        let own = &event["choices"][0]["logprobs"]["token_logprobs"];
        own.as_array().unwrap().clone()
    });
    assert_eq!(Value::Array(own.collect()), json!(likelihoods));

    let middle = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let stop: String = text[middle..].chars().take(1).collect();
    let before = text.split(&stop).next().unwrap();
    let body =
        json!({"prompt": "fn ", "max_tokens": 12, "temperature": 0, "stop": [stop, "never"]});
    let answer = complete(server.address, &body).json();
    assert_eq!(answer["choices"][0]["text"], before);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
}

#[test]
fn a_chat_is_the_text_that_its_template_writes() {
    let server = Server::start(Given {
        grid: "x=2",
        template: Some(TEMPLATE),
        ..Given::default()
    });
    let messages = json!([{"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}]);
    let prompt = "<system>be brief</s><user>hi</s><assistant>";
    let (text, likelihoods) = direct(Request {
        log_probabilities: Some(1),
        stop: vec!["</s>".into()],
        ..request(prompt, 20, greedy())
    });
    let body = json!({"model": "tiny", "messages": messages, "max_completion_tokens": 20, "temperature": 0,
        "logprobs": true, "top_logprobs": 1, "tools": [], "user": "me", "response_format": {"type": "text"}});
    let answer = post(server.address, "/v1/chat/completions", &body).json();
    assert_eq!(answer["object"], "chat.completion");
    let choice = &answer["choices"][0];
    let message = json!({"role": "assistant", "content": text, "refusal": null});
    assert_eq!(choice["message"], message);
    let content = choice["logprobs"]["content"].as_array().unwrap();
    let own = content
        .iter()
        .map(|token| token["logprob"].as_f64().unwrap());
    assert_eq!(own.collect::<Vec<_>>(), likelihoods);
    let pieces = post(
        server.address,
        "/v1/chat/completions",
        &with(&body, json!({"stream": true})),
    );
    assert_eq!(streamed(&pieces, 0), text);
    let first = &pieces.events()[0];
    assert_eq!(first["object"], "chat.completion.chunk");
    assert_eq!(first["choices"][0]["delta"]["role"], "assistant");
    // A completion does not end where an answer would.
    let body = json!({"prompt": "a", "max_tokens": 3, "temperature": 0});
    assert_eq!(complete(server.address, &body).status, 200);
}

#[test]
fn without_a_seed_each_request_draws_anew() {
    let server = Server::start(Given::default());
    let body = json!({"prompt": "a", "max_tokens": 40});
    let [one, other] = [0, 1].map(|_| text(&complete(server.address, &body)));
    assert_ne!(one, other);
}

#[test]
fn what_is_served_is_described() {
    let server = Server::start(Given::default());
    let models = get(server.address, "/v1/models").json();
    assert_eq!(models["data"][0]["id"], "tiny");
    assert_eq!(
        get(server.address, "/v1/models/tiny").json()["object"],
        "model"
    );
    assert_eq!(get(server.address, "/v1/models/other").status, 404);
    assert_eq!(
        get(server.address, "/health").json(),
        json!({"status": "ok"})
    );
    let page = get(server.address, "/");
    assert!(page.body.contains("<title>Fascicle</title>"), "{page:?}");
    assert!(page.head.to_lowercase().contains("content-security-policy"));
}

use super::*;
use serde_json::json;
use std::fs;

const CHATML: &str = "{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message['content'].strip() + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
";

fn chat(messages: &[(&str, &str)]) -> Chat {
    let message = |(role, content): &(&str, &str)| Chat::message(role, content);
    Chat {
        messages: messages.iter().map(message).collect(),
        tools: None,
    }
}

fn of(template: &str) -> Result<ChatTemplate> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(TEMPLATE_FILE);
    fs::write(&path, template).unwrap();
    ChatTemplate::read(&path)
}

#[test]
fn what_an_assistant_writes_counts() {
    let chat = chat(&[
        ("user", " hi "),
        ("assistant", "yes"),
        ("user", "so"),
        ("assistant", "no"),
    ]);
    let pieces = of(CHATML)
        .unwrap()
        .renderer()
        .unwrap()
        .pieces(&chat, 0)
        .unwrap();
    let counted: Vec<&str> = pieces
        .iter()
        .filter(|piece| piece.1)
        .map(|piece| &*piece.0)
        .collect();
    assert_eq!(counted, ["yes<|im_end|>\n", "no<|im_end|>\n"]);
    let of_last = of(CHATML)
        .unwrap()
        .renderer()
        .unwrap()
        .pieces(&chat, 2)
        .unwrap();
    assert_eq!(of_last.len(), 3);
    assert_eq!(of_last[1], ("no<|im_end|>\n".to_owned(), true));
    assert!(of_last[0].0.contains("yes") && !of_last[0].1);
    let whole: String = pieces.iter().map(|piece| &*piece.0).collect();
    assert_eq!(
        whole,
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n\
         <|im_start|>user\nso<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n"
    );
}

#[test]
fn a_template_that_rewrites_earlier_messages_tells_no_answers() {
    let forgets = "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.content }}|{% else %}-{% endif %}{% endfor %}";
    let chat = chat(&[
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
        ("assistant", "d"),
    ]);
    let error = of(forgets)
        .unwrap()
        .renderer()
        .unwrap()
        .pieces(&chat, 0)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("before message 2 otherwise once others follow"),
        "{error}"
    );
    assert!(error.ends_with("needs data.loss_on = \"all\""), "{error}");
}

#[test]
fn faults_of_templates_are_sentences() {
    let error = of("{% for m in messages %}").unwrap_err().to_string();
    assert!(
        error.contains("chat_template.jinja: ") && error.contains("line 1"),
        "{error}"
    );
    let raises = of("{{ raise_exception('roles must alternate') }}").unwrap();
    let error = raises
        .render(&chat(&[("user", "a")]), 1, false)
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("roles must alternate (line 1)"), "{error}");
    let endless =
        of("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}")
            .unwrap();
    assert!(endless.render(&chat(&[]), 0, false).is_err());
}

#[test]
fn a_template_is_found_beside_its_tokenizer() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = folder.path().join("tokenizer.json");
    assert_eq!(ChatTemplate::beside(&tokenizer).unwrap(), None);
    let settings = json!({
        "bos_token": {"content": "<s>"}, "eos_token": "</s>",
        "chat_template": [{"name": "tool_use", "template": "t"},
                          {"name": "default", "template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"}],
    });
    fs::write(folder.path().join(SETTINGS_FILE), settings.to_string()).unwrap();
    let found = ChatTemplate::beside(&tokenizer).unwrap().unwrap();
    assert_eq!(
        found.render(&chat(&[("user", "a")]), 1, false).unwrap(),
        "<s>a</s>"
    );
    // A file of its own wins, and still knows the tokens.
    fs::write(folder.path().join(TEMPLATE_FILE), "{{ eos_token }}").unwrap();
    let found = ChatTemplate::beside(&tokenizer).unwrap().unwrap();
    assert_eq!(found.render(&chat(&[]), 0, false).unwrap(), "</s>");
    // It leaves as it came.
    let other = tempfile::tempdir().unwrap();
    for (name, text) in found.files() {
        fs::write(other.path().join(name), text).unwrap();
    }
    let again = ChatTemplate::beside(&other.path().join("tokenizer.json"))
        .unwrap()
        .unwrap();
    assert_eq!(again.render(&chat(&[]), 0, false).unwrap(), "</s>");
}

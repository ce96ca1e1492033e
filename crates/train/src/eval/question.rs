//! Questions of multiple choice, in files of one JSON object per line.

use super::form;
use crate::data::{self, json_kind, json_reason};
use serde_json::Value;
use std::path::Path;

/// The most bytes of a file of questions.
const MOST_BYTES: u64 = 1 << 30;

/// The most choices of a question.
pub const MOST_CHOICES: usize = 256;

/// A question of multiple choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its line in the file, from 1.
    pub line: usize,
    /// What comes before each choice.
    pub context: String,
    /// The choices, at least two, none empty.
    pub choices: Vec<String>,
    /// The index of the right one.
    pub answer: usize,
}

/// The questions of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuestionFile {
    /// The file, for messages.
    pub name: String,
    /// Its questions, at least one.
    pub questions: Vec<Question>,
}

impl QuestionFile {
    /// Reads every line that is not blank. A line has a context, choices and an answer, in one of these forms; other keys are
    /// ignored:
    ///
    /// - `context`, or `query` as in lm-evaluation-harness, is the text before a choice. `question`, as in ARC, becomes
    ///   `"Question: ...\nAnswer:"`.
    /// - `choices` is a list of texts, or as in ARC an object with a list `text` and a list `label`.
    /// - `answer`, `gold` or `answerKey` is the index of the right choice, from 0, or a text: the label or the text of a choice.
    ///
    /// # Errors
    /// [`data::Error::Missing`], [`data::Error::Io`] for a file that cannot be read or has more than 1 GiB,
    /// [`data::Error::InvalidUtf8`], [`data::Error::Empty`]; [`data::Error::Line`] with the number of a line that is no question.
    pub fn read(path: &Path) -> data::Result<QuestionFile> {
        let (name, text) = (path.display().to_string(), data::text(path, MOST_BYTES)?);
        let mut questions = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                let question = of_line(line, index + 1);
                questions.push(question.map_err(|reason| data::Error::line(&name, index, reason))?);
            }
        }
        match questions.is_empty() {
            true => Err(data::Error::Empty { name }),
            false => Ok(QuestionFile { name, questions }),
        }
    }
}

fn of_line(text: &str, line: usize) -> Result<Question, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| json_reason(&error))?;
    let Value::Object(keys) = value else {
        return Err(format!("found {}, needs a JSON object", json_kind(&value)));
    };
    let context = form::context(&keys)?;
    let (choices, labels) = form::choices(&keys)?;
    let answer = form::answer(&keys, &choices, &labels)?;
    Ok(Question {
        line,
        context,
        choices,
        answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Question>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let read = QuestionFile::read(file.path());
        read.map(|file| file.questions)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_is_read_and_blank_lines_are_not() {
        let found = read(concat!(
            "{\"context\": \"1 + 1 =\", \"choices\": [\"2\", \"3\"], \"answer\": 1, \"source\": 3}\n\n",
            "{\"query\": \"q\", \"choices\": [\"a\", \"b\"], \"gold\": 0}\r\n",
            "{\"context\": \"\", \"choices\": [\"a\", \"b\"], \"answer\": \"b\"}\n",
            "{\"question\": \"Why?\", \"choices\": {\"text\": [\"x\", \"y\", \"z\"], \"label\": [\"A\", \"B\", \"C\"]}, \"answerKey\": \"C\"}",
        ))
        .unwrap();
        let question = |line, context: &str, choices: &[&str], answer| Question {
            line,
            context: context.into(),
            choices: choices.iter().map(|choice| (*choice).to_owned()).collect(),
            answer,
        };
        let needed = [
            question(1, "1 + 1 =", &["2", "3"], 1),
            question(3, "q", &["a", "b"], 0),
            question(4, "", &["a", "b"], 1),
            question(5, "Question: Why?\nAnswer:", &["x", "y", "z"], 2),
        ];
        assert_eq!(found, needed);
    }

    #[test]
    fn a_line_that_is_no_question_is_named() {
        let cases = [
            ("{\"choices\"", "line 2: EOF while parsing"),
            ("[]", "line 2: found an empty list, needs a JSON object"),
            (
                r#"{"choices": ["a", "b"], "answer": 0}"#,
                "line 2: found none of `context`, `query` and `question`, needs one of them",
            ),
            (
                r#"{"context": "", "query": "", "choices": ["a", "b"], "answer": 0}"#,
                "line 2: found `context` and `query`, needs one of them",
            ),
            (
                r#"{"context": 3, "choices": ["a", "b"], "answer": 0}"#,
                "line 2: `context` is a number, needs a text",
            ),
            (
                r#"{"context": "", "answer": 0}"#,
                "line 2: found no `choices`, needs a list of 2 to 256 texts",
            ),
            (
                r#"{"context": "", "choices": [], "answer": 0}"#,
                "line 2: found 0 choices, needs 2 to 256",
            ),
            (
                r#"{"context": "", "choices": ["a", ""], "answer": 0}"#,
                "line 2: choice 1 is empty, needs a text",
            ),
            (
                r#"{"context": "", "choices": ["a", 2], "answer": 0}"#,
                "line 2: choice 1 is a number, needs a text",
            ),
            (
                r#"{"context": "", "choices": ["a", "b"]}"#,
                "line 2: found none of `answer`, `gold` and `answerKey`, needs one of them",
            ),
            (
                r#"{"context": "", "choices": ["a", "b"], "answer": 2}"#,
                "line 2: `answer` is 2, needs an index from 0 to 1",
            ),
            (
                r#"{"context": "", "choices": ["a", "b"], "answer": -1}"#,
                "line 2: `answer` is -1, needs an index from 0 to 1",
            ),
            (
                r#"{"context": "", "choices": ["a", "b"], "answer": "c"}"#,
                "line 2: `answer` is \"c\", which is neither a label nor a choice",
            ),
            (
                r#"{"context": "", "choices": {"text": ["a", "b"], "label": ["A"]}, "answerKey": "A"}"#,
                "line 2: found 1 labels, needs one for each of 2 choices",
            ),
        ];
        let good = r#"{"context": "", "choices": ["a", "b"], "answer": 0}"#;
        for (line, needed) in cases {
            let found = read(&format!("{good}\n{line}\n")).unwrap_err();
            assert!(found.contains(needed), "{found}");
        }
        assert!(read("\n \n").unwrap_err().ends_with("is empty"));
        assert!(
            read(&"[".repeat(100_000))
                .unwrap_err()
                .contains("recursion limit")
        );
    }
}

//! The actions of a step on the whole call.

use outrigger_api::METHODS;
use outrigger_api::v1::ErrorReason;
use prost_reflect::{ReflectMessage as _, Value};
use tokio::time::sleep;
use tonic::Status;

use super::hook::Next;
use super::run::{Run, decoded};
use super::scope::Scope;
use crate::duration;
use crate::exchange::{Answer, Call};
use crate::faults::{Code, InjectedError};
use crate::message::{Side, blank, edit as change};

/// An action on the whole call, with its values.
pub(super) enum Effect {
    Whole(String, String),
    /// A further call of the method, made of this one; its answer is that of the call, or has a name.
    Ask {
        method: String,
        name: Option<String>,
        edits: Vec<String>,
    },
}

/// The same error with another text or code.
pub(super) fn said(verb: &str, words: &str, of: &Status) -> Status {
    let details = of.details().to_vec().into();
    match words.parse::<Code>() {
        Ok(code) if verb == "recode" => Status::with_details(code.0, of.message(), details),
        _ => Status::with_details(of.code(), words, details),
    }
}

impl Run {
    /// Another call of the same caller: of the fields that both requests have, with changes.
    fn further(&self, method: &str, edits: &[String]) -> Option<(&'static str, Call)> {
        let path = METHODS.iter().find(|one| one.name == method)?.path;
        let mut request = blank(path, Side::Request)?;
        let own = decoded(self.call.head.uri.path(), Side::Request, self.call.first())?;
        for (field, value) in own.fields() {
            if let Some(same) = request.descriptor().get_field_by_name(field.name()) {
                request.set_field(&same, value.clone());
            }
        }
        for edit in edits {
            if let Err(error) = change(&mut request, edit) {
                eprintln!("provider-mock: {error}");
            }
        }
        Some((path, self.call.other(path, &request)))
    }

    /// A change with the values that it names.
    pub(super) fn edit(&self, edit: &str, scope: Scope<'_>) -> Option<String> {
        if let Some(put) = edit.strip_prefix("put ") {
            let (field, path) = put.split_once(' ')?;
            let value = match path {
                "." => Value::Message(scope.one.clone()),
                _ => self.values(path, scope).into_iter().next()?,
            };
            let message = value.as_message()?.to_text_format();
            return Some(format!("set {field} {{ {message} }}"));
        }
        let is_message = !edit.starts_with("error ");
        Some(self.filled(edit, scope, is_message))
    }

    /// Does something on the whole call; the answer, if that ends it.
    pub(super) async fn perform(
        &mut self,
        path: &str,
        effect: Effect,
        next: &Next,
    ) -> Option<Answer> {
        let (verb, words) = match effect {
            Effect::Ask {
                method,
                name,
                edits,
            } => {
                let (path, call) = self.further(&method, &edits)?;
                let answer = next.correct(call).await;
                let Some(name) = name else {
                    return Some(answer);
                };
                let message = answer
                    .first()
                    .and_then(|one| decoded(path, Side::Response, one));
                self.answers.insert(name, (answer.code(), message));
                return None;
            }
            Effect::Whole(verb, words) => (verb, words),
        };
        match verb.as_str() {
            "fail" | "limit" => {
                let (name, text) = words.split_once(' ').unwrap_or((&words, ""));
                let reason = ErrorReason::from_str_name(&format!("ERROR_REASON_{name}"));
                let status = match (reason, name.parse::<Code>()) {
                    (Some(reason), _) if verb == "limit" => InjectedError::of(reason, text)
                        .without_retry_info()
                        .to_status(),
                    (Some(reason), _) => InjectedError::of(reason, text).to_status(),
                    (None, Ok(code)) => Status::new(code.0, text),
                    (None, Err(error)) => Status::unknown(error),
                };
                return Some(Answer::failed(status));
            }
            "answer" => {
                let mut message = blank(path, Side::Response)?;
                if let Err(error) = change(&mut message, &format!("merge {words}")) {
                    eprintln!("provider-mock: {error}");
                }
                return Some(Answer::ok(&message));
            }
            "wait" => {
                if let Ok(time) = duration::parse(&words) {
                    sleep(time).await;
                }
            }
            "log" => eprintln!("provider-mock: {words}"),
            "exit" => std::process::exit(1),
            _ => {}
        }
        None
    }
}

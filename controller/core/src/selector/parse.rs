//! The grammar, as apimachinery's `labels.Parse` has it except `<` and `>`.

use super::{Condition, Requirement};
use crate::syntax;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equal,
    NotEqual,
    End,
}

struct Parser<'a> {
    text: &'a str,
    /// Where the next token may begin.
    at: usize,
}

pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser { text, at: 0 };
    if parser.peek()?.0 == Token::End {
        // To Kubernetes it selects everything, which is never the intent of a selector.
        return Err("is empty, which would select everything".to_owned());
    }
    let mut requirements = Vec::new();
    loop {
        requirements.push(parser.requirement()?);
        if parser.next("',' or the end", |token| match token {
            Token::Comma => Some(false),
            Token::End => Some(true),
            _ => None,
        })? {
            return Ok(requirements);
        }
    }
}

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<Requirement, String> {
        let (token, place) = self.advance()?;
        let (key, condition) = match token {
            Token::Not => (self.key()?, Condition::DoesNotExist),
            Token::Word(key) => (key, self.condition()?),
            _ => return Err(self.unexpected(token, place, "a key or '!'")),
        };
        syntax::label_key(key)
            .map_err(|complaint| format!("has the key {key:?}, which {complaint}"))?;
        Ok(Requirement {
            key: key.into(),
            condition,
        })
    }

    fn key(&mut self) -> Result<&'a str, String> {
        self.next("a key", |token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        })
    }

    fn condition(&mut self) -> Result<Condition, String> {
        let (token, place) = self.peek()?;
        if matches!(token, Token::Comma | Token::End) {
            return Ok(Condition::Exists);
        }
        self.advance()?;
        match token {
            Token::Equal => Ok(Condition::In([self.value()?].into())),
            Token::NotEqual => Ok(Condition::NotIn([self.value()?].into())),
            Token::Word("in") => Ok(Condition::In(self.set()?)),
            Token::Word("notin") => Ok(Condition::NotIn(self.set()?)),
            _ => Err(self.unexpected(
                token,
                place,
                "'=', '==', '!=', 'in', 'notin', ',' or the end",
            )),
        }
    }

    /// Parses a value. A missing value is the empty value: `a=` and `a in (,b)` are legal.
    fn value(&mut self) -> Result<Box<str>, String> {
        let (token, place) = self.peek()?;
        let value = match token {
            Token::Word(value) => {
                self.advance()?;
                value
            }
            Token::Comma | Token::Close | Token::End => "",
            _ => return Err(self.unexpected(token, place, "a value")),
        };
        syntax::label_value(value)
            .map_err(|complaint| format!("has the value {value:?}, which {complaint}"))?;
        Ok(value.into())
    }

    fn set(&mut self) -> Result<Box<[Box<str>]>, String> {
        self.next("'('", |token| (token == Token::Open).then_some(()))?;
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            if self.next("',' or ')'", |token| match token {
                Token::Comma => Some(false),
                Token::Close => Some(true),
                _ => None,
            })? {
                return Ok(values.into());
            }
        }
    }

    /// The next token, as what `read` makes of it.
    fn next<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(Token<'a>) -> Option<T>,
    ) -> Result<T, String> {
        let (token, place) = self.advance()?;
        read(token).ok_or_else(|| self.unexpected(token, place, expected))
    }

    fn advance(&mut self) -> Result<(Token<'a>, usize), String> {
        let (token, place) = self.peek()?;
        self.at = place
            + match token {
                Token::Word(word) => word.len(),
                Token::Equal if self.rest(place).starts_with("==") => 2,
                Token::NotEqual => 2,
                _ => 1,
            };
        Ok((token, place))
    }

    /// The next token and where it begins.
    fn peek(&self) -> Result<(Token<'a>, usize), String> {
        let rest = self.rest(self.at);
        let place = self.text.len() - rest.trim_start().len();
        let rest = self.rest(place);
        let token = match rest.chars().next() {
            None => Token::End,
            Some(',') => Token::Comma,
            Some('(') => Token::Open,
            Some(')') => Token::Close,
            Some('=') => Token::Equal,
            Some('!') if rest.starts_with("!=") => Token::NotEqual,
            Some('!') => Token::Not,
            Some(operator @ ('<' | '>')) => {
                let at = place + 1;
                return Err(format!(
                    "has {operator:?} at {at}: only =, ==, !=, in, notin, a key alone and !key are supported"
                ));
            }
            Some(_) => {
                let ends = |c: char| c.is_whitespace() || ",()=!<>".contains(c);
                Token::Word(rest.split(ends).next().unwrap_or(rest))
            }
        };
        Ok((token, place))
    }

    /// The rest of the text from there; nothing behind its end.
    fn rest(&self, at: usize) -> &'a str {
        self.text.get(at..).unwrap_or_default()
    }

    fn unexpected(&self, token: Token<'_>, place: usize, expected: &'static str) -> String {
        let text = match token {
            Token::Word(word) => format!("{word:?}"),
            Token::End => "its end".to_owned(),
            _ => format!("{:?}", self.rest(place).get(..1).unwrap_or_default()),
        };
        format!("has {text} at {}, where {expected} should be", place + 1)
    }
}

//! The attribute `#[fathom_testkit::test]`: a test that may end as skipped.
//!
//! The standard test runner knows passed and failed tests, but not tests that could not run. This attribute wraps the body of a
//! test in `fathom_testkit::run_test`, which distinguishes the three. It works on tokens alone, so that the test kit needs no
//! parser of Rust.

use std::iter;

use proc_macro::{Delimiter, Group, Ident, Literal, TokenStream, TokenTree};

/// A test that may call `skip!` and take fixtures. A file with `use fathom_testkit::test;` gives all of its tests this
/// attribute.
///
/// A test returns nothing. One that takes a fixture and reaches no assertion of the kit fails.
#[proc_macro_attribute]
pub fn test(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = item.into_iter().collect();
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let name = tokens.iter().skip_while(|token| !is_fn(token)).nth(1).map(ToString::to_string);
    let body = tokens.pop();
    let (Some(name), Some(TokenTree::Group(body))) = (name, body) else {
        return error("fathom_testkit::test stands in front of a function");
    };
    if body.delimiter() != Delimiter::Brace {
        return error("fathom_testkit::test stands in front of a function with a body");
    }
    let call = parse("::fathom_testkit::run_test");
    let path = parse(&format!("concat!(module_path!(), \"::\", {}),", Literal::string(&name)));
    let closure = parse("move ||").into_iter().chain(iter::once(TokenTree::Group(body)));
    let arguments: TokenStream = path.into_iter().chain(closure).collect();
    let wrapped: TokenStream = call
        .into_iter()
        .chain(iter::once(TokenTree::Group(Group::new(Delimiter::Parenthesis, arguments))))
        .collect();
    tokens.push(TokenTree::Group(Group::new(Delimiter::Brace, wrapped)));
    parse("#[::core::prelude::v1::test]").into_iter().chain(tokens).collect()
}

fn error(message: &str) -> TokenStream {
    let mut macro_call = parse("::core::compile_error!");
    let message = TokenTree::Literal(Literal::string(message));
    macro_call.extend([TokenTree::Group(Group::new(Delimiter::Brace, message.into()))]);
    macro_call
}

/// Tokens of a text that is Rust, which all texts here are.
fn parse(text: &str) -> TokenStream {
    text.parse()
        .unwrap_or_else(|_| TokenTree::Ident(Ident::new("unparsable", proc_macro::Span::call_site())).into())
}

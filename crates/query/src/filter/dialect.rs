//! Rewrites a PCRE pattern for `fancy-regex` where both accept the same characters and mean different things: `$` before a
//! last line feed, classes such as `\d` that are ASCII in PCRE, `\Q...\E`, literal braces, brackets within brackets.
//! Leaves everything else alone, so that what is not understood is refused by the compiler.

/// What `$` outside a class becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dollar {
    /// Itself: the very end.
    AtEnd,
    /// The end, or before a last line feed.
    BeforeLineFeed,
}

/// The pattern in the other dialect; `extended` when white space and comments in it are skipped (option `x`).
pub(super) fn translate(pattern: &str, extended: bool, dollar: Dollar) -> String {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len() + 8) };
    while let Some(next) = translator.next() {
        match next {
            '\\' => translator.escape(false),
            '[' => translator.class(),
            '$' if dollar == Dollar::BeforeLineFeed => translator.out.push_str(r"(?=\n?\z)"),
            '{' if !is_repetition(translator.rest) => translator.out.push_str(r"\{"),
            '#' if extended => translator.comment(),
            other => translator.out.push(other),
        }
    }
    translator.out
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
}

impl Translator<'_> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    /// What follows a backslash.
    fn escape(&mut self, in_class: bool) {
        let Some(next) = self.next() else {
            self.out.push('\\');
            return;
        };
        // Within a class the members are listed, and a negated class is a class in the class.
        let (open, close) = if in_class { ("", "") } else { ("[", "]") };
        match next {
            'd' => self.out.extend([open, "0-9", close]),
            'w' => self.out.extend([open, "0-9A-Za-z_", close]),
            's' => self.out.extend([open, r" \t\n\x0b\x0c\r", close]),
            'h' => self.out.extend([open, r" \t\x{a0}", close]),
            'D' => self.out.push_str("[^0-9]"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            'S' => self.out.push_str(r"[^ \t\n\x0b\x0c\r]"),
            'H' => self.out.push_str(r"[^ \t\x{a0}]"),
            'e' => self.out.push_str(r"\x1b"),
            'Q' => self.quoted(),
            'E' => {}
            other => self.out.extend(['\\', other]),
        }
    }

    /// From `\Q` to `\E` or the end everything stands for itself.
    fn quoted(&mut self) {
        let (text, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
        for character in text.chars() {
            if character.is_ascii_punctuation() || character == ' ' {
                self.out.push('\\');
            }
            self.out.push(character);
        }
        self.rest = rest;
    }

    /// What follows an opening bracket, to its end.
    fn class(&mut self) {
        self.out.push('[');
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.out.push('^');
            self.rest = rest;
        }
        if let Some(rest) = self.rest.strip_prefix(']') {
            self.out.push_str(r"\]");
            self.rest = rest;
        }
        while let Some(next) = self.next() {
            match next {
                ']' => {
                    self.out.push(']');
                    return;
                }
                '[' if self.rest.starts_with(':') => match self.rest.split_once(":]") {
                    Some((name, rest)) => {
                        self.out.extend(["[", name, ":]"]);
                        self.rest = rest;
                    }
                    None => self.out.push_str(r"\["),
                },
                '\\' => self.escape(true),
                '[' | '&' | '~' | '#' | ' ' => self.out.extend(['\\', next]),
                other => self.out.push(other),
            }
        }
    }

    /// To the end of the line.
    fn comment(&mut self) {
        let (_, rest) = self.rest.split_once('\n').unwrap_or(("", ""));
        self.rest = rest;
    }
}

/// Whether what follows an opening brace makes it a count: `3}`, `3,}`, `3,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some((counts, _)) = rest.split_once('}') else { return false };
    let (least, most) = counts.split_once(',').unwrap_or((counts, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

//! mongoperf's document as anybody may feed it: never a panic, whatever is accepted can be run, is echoed on one
//! line, and its echo is a document that means the same.

use fathom_probe::mongoperf::Options;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(parsed) = Options::parse(text) else { return };
    let options = &parsed.options;
    assert!(options.reads || options.writes);
    assert!((1..=16_384).contains(&options.threads));
    assert!(options.record_bytes <= options.file_bytes && options.record_bytes.get() > 0);
    assert!(!parsed.echo.contains(['\n', '\r']));
    // What is longer than a scalar is shown as dots.
    if !parsed.echo.contains("...") {
        let again = Options::parse(&parsed.echo).map(|again| again.options);
        assert_eq!(again.ok().as_ref(), Some(options), "{}", parsed.echo);
    }
}

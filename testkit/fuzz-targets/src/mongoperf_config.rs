//! Fuzzes mongoperf's document: no panic; an accepted document can be run and is echoed on one line, and its echo is a
//! document with the same meaning.

use fathom_probe::mongoperf::MongoperfOptions;

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(parsed) = MongoperfOptions::parse(text) else { return };
    let options = &parsed.options;
    assert!(options.reads || options.writes);
    assert!((1..=16_384).contains(&options.threads));
    assert!(options.record_bytes <= options.file_bytes && options.record_bytes.get() > 0);
    assert!(!parsed.echo.contains(['\n', '\r']));
    // Values longer than a scalar are shown as dots.
    if !parsed.echo.contains("...") {
        let again = MongoperfOptions::parse(&parsed.echo).map(|again| again.options);
        assert_eq!(again.ok().as_ref(), Some(options), "{}", parsed.echo);
    }
}

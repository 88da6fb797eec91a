//! Fuzzes connection strings: each is refused or parsed without a panic, and no password is in the shown text.

use fathom_client::{Address, Target};

pub(crate) fn take_input(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(target) = text.parse::<Target>() {
        assert!(target.addresses.is_empty() == target.seed_list.is_some());
        for address in &target.addresses {
            assert_eq!(address.to_string().parse::<Address>().ok().as_ref(), Some(address));
        }
    }
    let secret = "mongodb://u:x7Qk29Zw@".to_owned() + text;
    match secret.parse::<Target>() {
        Ok(target) => assert!(!format!("{target:?} {target}").contains("x7Qk29Zw")),
        Err(error) => assert!(!error.to_string().contains("x7Qk29Zw")),
    }
}

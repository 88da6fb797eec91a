//! Tests of strings and patterns.

use bson::{Bson, Regex, bson};

use super::{check, check_codes};

#[test]
fn strings_are_joined_cut_and_searched() {
    check(&[
        (bson!({ "$concat": ["$text", "-", "x"] }), bson!("Hello-x")),
        (bson!({ "$concat": ["$text", null] }), Bson::Null),
        (bson!({ "$split": ["a,b,,c", ","] }), bson!(["a", "b", "", "c"])),
        (bson!({ "$split": [null, ","] }), Bson::Null),
        (bson!({ "$strLenBytes": "é" }), bson!(2)),
        (bson!({ "$strLenCP": "é" }), bson!(1)),
        (bson!({ "$strcasecmp": ["abc", "ABD"] }), bson!(-1)),
        (bson!({ "$toLower": "$text" }), bson!("hello")),
        (bson!({ "$toUpper": "é a" }), bson!("é A")),
        (bson!({ "$toUpper": null }), bson!("")),
        (bson!({ "$toLower": 1.5 }), bson!("1.5")),
        (bson!({ "$indexOfBytes": ["éa", "a"] }), bson!(2)),
        (bson!({ "$indexOfCP": ["éa", "a"] }), bson!(1)),
        (bson!({ "$indexOfCP": ["banana", "a", 2] }), bson!(3)),
        (bson!({ "$indexOfCP": ["banana", "a", 2, 3] }), bson!(-1)),
        (bson!({ "$indexOfBytes": ["abc", "", 3] }), bson!(3)),
        (bson!({ "$indexOfBytes": ["abc", "c", 9] }), bson!(-1)),
        (bson!({ "$substrBytes": ["Hello", 1, 3] }), bson!("ell")),
        (bson!({ "$substr": ["Hello", 1, -1] }), bson!("ello")),
        (bson!({ "$substrBytes": ["Hello", 9, 3] }), bson!("")),
        (bson!({ "$substrBytes": [1234, 1, 2] }), bson!("23")),
        (bson!({ "$substrCP": ["éàb", 1, 5] }), bson!("àb")),
        (bson!({ "$trim": { "input": "  x y\t\n" } }), bson!("x y")),
        (bson!({ "$ltrim": { "input": "aabca", "chars": "ab" } }), bson!("ca")),
        (bson!({ "$rtrim": { "input": "aabca", "chars": "ac" } }), bson!("aab")),
        (bson!({ "$trim": { "input": null } }), Bson::Null),
        (bson!({ "$replaceOne": { "input": "aXbX", "find": "X", "replacement": "-" } }), bson!("a-bX")),
        (bson!({ "$replaceAll": { "input": "aXbX", "find": "X", "replacement": "--" } }), bson!("a--b--")),
        (bson!({ "$replaceAll": { "input": "a", "find": null, "replacement": "b" } }), Bson::Null),
        (bson!({ "$binarySize": "é" }), bson!(2)),
    ]);
}

#[test]
fn strings_are_refused_where_they_do_not_fit() {
    check_codes(&[
        (bson!({ "$concat": [1] }), 16702),
        (bson!({ "$split": [1, "x"] }), 40085),
        (bson!({ "$split": ["x", 1] }), 40086),
        (bson!({ "$split": ["x", ""] }), 40087),
        (bson!({ "$strLenBytes": 1 }), 34473),
        (bson!({ "$strLenCP": null }), 34471),
        (bson!({ "$toLower": [["x"]] }), 16007),
        (bson!({ "$indexOfBytes": [1, "x"] }), 40091),
        (bson!({ "$indexOfBytes": ["x", 1] }), 40092),
        (bson!({ "$indexOfCP": [1, "x"] }), 40093),
        (bson!({ "$substrBytes": ["x", "y", 1] }), 16034),
        (bson!({ "$substrBytes": ["x", 0, "y"] }), 16035),
        (bson!({ "$substrBytes": ["x", -1, 1] }), 50752),
        (bson!({ "$substrBytes": ["é", 1, 1] }), 28656),
        (bson!({ "$substrBytes": ["é", 0, 1] }), 28657),
        (bson!({ "$substrCP": ["x", "y", 1] }), 34450),
        (bson!({ "$substrCP": ["x", 1.5, 1] }), 34451),
        (bson!({ "$substrCP": ["x", 0, "y"] }), 34452),
        (bson!({ "$substrCP": ["x", 0, -1] }), 34454),
        (bson!({ "$substrCP": ["x", -1, 1] }), 34455),
        (bson!({ "$trim": "x" }), 50696),
        (bson!({ "$trim": { "chars": "x" } }), 50695),
        (bson!({ "$trim": { "input": "x", "y": 1 } }), 50694),
        (bson!({ "$trim": { "input": 1 } }), 50699),
        (bson!({ "$trim": { "input": "x", "chars": 1 } }), 50700),
        (bson!({ "$replaceOne": 1 }), 51751),
        (bson!({ "$replaceOne": { "input": 1, "find": "", "replacement": "" } }), 51746),
        (bson!({ "$replaceAll": { "input": "", "find": 1, "replacement": "" } }), 51745),
        (bson!({ "$replaceAll": { "input": "", "find": "", "replacement": 1 } }), 51744),
        (bson!({ "$binarySize": 1 }), 51276),
    ]);
}

fn pattern(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(Regex {
        pattern: pattern.try_into().unwrap(),
        options: options.try_into().unwrap(),
    })
}

#[test]
fn patterns_find_matches_with_their_groups() {
    check(&[
        (bson!({ "$regexMatch": { "input": "$text", "regex": "^hel", "options": "i" } }), bson!(true)),
        (bson!({ "$regexMatch": { "input": "$text", "regex": "^hel" } }), bson!(false)),
        (bson!({ "$regexMatch": { "input": "$text", "regex": pattern("ELL", "i") } }), bson!(true)),
        (bson!({ "$regexMatch": { "input": null, "regex": "x" } }), bson!(false)),
        (
            bson!({ "$regexFind": { "input": "éab1", "regex": "(a)(x)?b" } }),
            bson!({ "match": "ab", "idx": 1, "captures": ["a", null] }),
        ),
        (bson!({ "$regexFind": { "input": "abc", "regex": "x" } }), Bson::Null),
        (
            bson!({ "$regexFindAll": { "input": "é1é2", "regex": "\\d" } }),
            bson!([{ "match": "1", "idx": 1, "captures": [] }, { "match": "2", "idx": 3, "captures": [] }]),
        ),
        (bson!({ "$regexFindAll": { "input": "abc", "regex": "x" } }), bson!([])),
    ]);
    check_codes(&[
        (bson!({ "$regexMatch": 1 }), 51103),
        (bson!({ "$regexMatch": { "regex": "x" } }), 31022),
        (bson!({ "$regexMatch": { "input": "x" } }), 31023),
        (bson!({ "$regexMatch": { "input": "x", "regex": "x", "y": 1 } }), 31024),
        (bson!({ "$regexMatch": { "input": 1, "regex": "x" } }), 51104),
        (bson!({ "$regexMatch": { "input": "x", "regex": 1 } }), 51105),
        (bson!({ "$regexMatch": { "input": "x", "regex": "x", "options": 1 } }), 51106),
        (bson!({ "$regexMatch": { "input": "x", "regex": pattern("x", "i"), "options": "m" } }), 51107),
        (bson!({ "$regexMatch": { "input": "x", "regex": "x", "options": "q" } }), 51108),
        (bson!({ "$regexMatch": { "input": "x", "regex": "(" } }), 51111),
    ]);
}

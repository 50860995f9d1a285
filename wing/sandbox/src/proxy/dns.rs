//! Answers to questions for names, from the policy alone.
//!
//! Nothing is ever asked further: what a name resolves to is found out when somebody
//! connects, and so no question carries anything out.

use std::net::Ipv4Addr;

use wt_policy::HostName;

/// How long an answer may be kept, in seconds. The address of a name never changes while
/// the session lives; the policy may.
pub const TTL: u32 = 30;

/// The largest question that is read: a name, an EDNS record and its options.
pub const MAX_QUESTION: usize = 1_232;

const A: u16 = 1;
const AAAA: u16 = 28;
const SVCB: u16 = 64;
const HTTPS: u16 = 65;
const OPT: u16 = 41;
const INTERNET: u16 = 1;

/// What there is for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameAnswer {
    /// This address.
    Address(Ipv4Addr),
    /// The machine itself (RFC 6761, section 6.3).
    Localhost,
    /// Nothing: the policy does not allow it.
    NotAllowed,
    /// Nothing for the moment: too many names.
    TryLater,
}

/// The result of a question (RFC 1035, section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Code {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
}

/// Answers one message; `None` when it deserves no answer. `names` is asked for names that
/// are well-formed, and for no others.
pub fn answer(message: &[u8], names: impl FnOnce(&HostName) -> NameAnswer) -> Option<Vec<u8>> {
    let [id_high, id_low, flags, _, rest @ ..] = message else {
        return None;
    };
    // An answer to an answer would go on for ever.
    if message.len() < 12 || flags & 0x80 != 0 {
        return None;
    }
    let head = Head {
        id: [*id_high, *id_low],
        recursion_desired: flags & 1 != 0,
        opcode: flags >> 3 & 0x0f,
    };
    if head.opcode != 0 {
        return Some(head.reply(Code::NotImp, None, &[], false));
    }
    let counts: Vec<u16> = rest[..8]
        .chunks(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
        .collect();
    let well_formed = counts[0] == 1 && counts[1] == 0 && counts[2] == 0 && counts[3] <= 1;
    let Some(question) = Some(&message[12..])
        .filter(|_| well_formed && message.len() <= MAX_QUESTION)
        .and_then(read_question)
    else {
        return Some(head.reply(Code::FormErr, None, &[], false));
    };
    let edns = match edns(question.rest, counts[3]) {
        Ok(edns) => edns,
        Err(()) => return Some(head.reply(Code::FormErr, None, &[], false)),
    };
    if question.class != INTERNET {
        return Some(head.reply(Code::Refused, Some(question.bytes), &[], edns));
    }
    let found = HostName::parse(&question.name).map_or(NameAnswer::NotAllowed, |name| names(&name));
    let address = |octets: &[u8]| {
        // The name by its place in the message.
        let mut record = vec![0xc0, 12];
        record.extend_from_slice(&question.kind.to_be_bytes());
        record.extend_from_slice(&INTERNET.to_be_bytes());
        record.extend_from_slice(&TTL.to_be_bytes());
        record.extend_from_slice(&[0, u8::try_from(octets.len()).unwrap_or(0)]);
        record.extend_from_slice(octets);
        record
    };
    let (code, records) = match (found, question.kind) {
        (NameAnswer::NotAllowed, _) => (Code::NxDomain, Vec::new()),
        (NameAnswer::TryLater, _) => (Code::ServFail, Vec::new()),
        (NameAnswer::Address(v4), A) => (Code::NoError, address(&v4.octets())),
        (NameAnswer::Localhost, A) => (Code::NoError, address(&Ipv4Addr::LOCALHOST.octets())),
        (NameAnswer::Localhost, AAAA) => {
            let v6 = std::net::Ipv6Addr::LOCALHOST;
            (Code::NoError, address(&v6.octets()))
        }
        // Empty, not absent: then clients go on with the address that there is. HTTPS
        // records would bring other endpoints and keys for hidden names.
        (NameAnswer::Address(_) | NameAnswer::Localhost, AAAA | SVCB | HTTPS) => {
            (Code::NoError, Vec::new())
        }
        (NameAnswer::Address(_) | NameAnswer::Localhost, _) => (Code::Refused, Vec::new()),
    };
    Some(head.reply(code, Some(question.bytes), &records, edns))
}

struct Head {
    id: [u8; 2],
    recursion_desired: bool,
    opcode: u8,
}

impl Head {
    fn reply(&self, code: Code, question: Option<&[u8]>, record: &[u8], edns: bool) -> Vec<u8> {
        let flags = 0x80 | self.opcode << 3 | u8::from(self.recursion_desired);
        // Recursion is available: a client would look no further without that.
        let mut reply = vec![self.id[0], self.id[1], flags, 0x80 | code as u8];
        let counts = [
            u8::from(question.is_some()),
            u8::from(!record.is_empty()),
            0,
            u8::from(edns),
        ];
        reply.extend(counts.into_iter().flat_map(|count| [0, count]));
        reply.extend_from_slice(question.unwrap_or_default());
        reply.extend_from_slice(record);
        if edns {
            // The root, the type, the size that is read, and nothing else (RFC 6891).
            reply.push(0);
            reply.extend_from_slice(&OPT.to_be_bytes());
            reply.extend_from_slice(&u16::try_from(MAX_QUESTION).unwrap_or(512).to_be_bytes());
            reply.extend_from_slice(&[0; 6]);
        }
        reply
    }
}

struct Question<'a> {
    name: String,
    kind: u16,
    class: u16,
    /// The question as it came, in the letters of whoever asked.
    bytes: &'a [u8],
    rest: &'a [u8],
}

fn read_question(bytes: &[u8]) -> Option<Question<'_>> {
    let mut name = String::new();
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // Longer ones are pointers, which have nothing to point at.
        if length > 63 || at + length > 254 {
            return None;
        }
        let label = bytes.get(at..at + length)?;
        // A dot inside a label would make two of one.
        if !label.iter().all(|b| b.is_ascii_graphic() && *b != b'.') {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|b| char::from(*b)));
        at += length;
    }
    let tail = bytes.get(at..at + 4)?;
    Some(Question {
        name,
        kind: u16::from_be_bytes([tail[0], tail[1]]),
        class: u16::from_be_bytes([tail[2], tail[3]]),
        bytes: &bytes[..at + 4],
        rest: &bytes[at + 4..],
    })
}

/// Whether there is an EDNS record, and nothing else.
fn edns(rest: &[u8], count: u16) -> Result<bool, ()> {
    if count == 0 {
        return if rest.is_empty() { Ok(false) } else { Err(()) };
    }
    let [
        0,
        kind_high,
        kind_low,
        _,
        _,
        _,
        _,
        _,
        _,
        length_high,
        length_low,
        options @ ..,
    ] = rest
    else {
        return Err(());
    };
    let length = usize::from(u16::from_be_bytes([*length_high, *length_low]));
    match u16::from_be_bytes([*kind_high, *kind_low]) == OPT && options.len() == length {
        true => Ok(true),
        false => Err(()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    const POOL: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 7);

    /// A question for a name.
    pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes
    }

    fn names(name: &HostName) -> NameAnswer {
        match name.as_str() {
            "allowed.test" => NameAnswer::Address(POOL),
            "localhost" => NameAnswer::Localhost,
            "busy.test" => NameAnswer::TryLater,
            _ => NameAnswer::NotAllowed,
        }
    }

    /// The code, the number of answers, and the last bytes.
    fn ask(name: &str, kind: u16) -> (u8, u8, Vec<u8>) {
        let asked = question(name, kind);
        let reply = answer(&asked, names).unwrap();
        assert_eq!(&reply[..2], &[0xab, 0xcd]);
        assert_eq!(&reply[12..asked.len()], &asked[12..]);
        (reply[3] & 0x0f, reply[7], reply[asked.len()..].to_vec())
    }

    #[test]
    fn an_allowed_name_has_an_address_and_nothing_else() {
        let (code, count, record) = ask("ALLOWED.test", 1);
        assert_eq!((code, count), (0, 1));
        assert!(record.ends_with(&[0, 0, 0, 30, 0, 4, 198, 18, 0, 7]));
        for empty in [28, 64, 65] {
            assert_eq!(ask("allowed.test", empty), (0, 0, vec![]), "{empty}");
        }
        for refused in [16, 15, 255, 252, 251, 2, 5, 6, 12, 33, 10, 99] {
            assert_eq!(ask("allowed.test", refused), (5, 0, vec![]), "{refused}");
        }
    }

    #[test]
    fn a_name_that_is_not_allowed_does_not_exist() {
        for kind in [1, 28, 16, 255] {
            assert_eq!(ask("c2VjcmV0.evil.test", kind), (3, 0, vec![]));
        }
        assert_eq!(ask("", 1).0, 3);
        assert_eq!(ask("127.0.0.1", 1).0, 3);
        assert_eq!(ask("busy.test", 1).0, 2);
        assert_eq!(ask("localhost", 1).0, 0);
        assert!(
            ask("localhost", 28)
                .2
                .ends_with(&[0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
        );
    }

    #[test]
    fn a_malformed_question_is_never_looked_up() {
        let code = |bytes: &[u8]| {
            answer(bytes, |_| panic!("it is looked up")).map(|reply| reply[3] & 0x0f)
        };
        assert_eq!(code(b""), None);
        assert_eq!(code(&question("allowed.test", 1)[..11]), None);
        assert_eq!(code(&question("allowed.test", 1)[..20]), Some(1));
        let mut changed = question("allowed.test", 1);
        changed[2] |= 0x80;
        assert_eq!(code(&changed), None);
        changed[2] = 0x28;
        assert_eq!(code(&changed), Some(4));
        for (at, value) in [
            (5, 2),
            (5, 0),
            (7, 1),
            (9, 1),
            (11, 2),
            (12, 0xc0),
            (12, 64),
            (13, 0),
            (13, b'.'),
        ] {
            let mut changed = question("allowed.test", 1);
            changed[at] = value;
            assert_eq!(code(&changed), Some(1), "byte {at}");
        }
        let long = format!("{}test", "aaaaaaaaa.".repeat(26));
        assert_eq!(code(&question(&long, 1)), Some(1));
        let mut trailing = question("allowed.test", 1);
        trailing.push(0);
        assert_eq!(code(&trailing), Some(1));
        let mut class = question("allowed.test", 1);
        *class.last_mut().unwrap() = 3;
        assert_eq!(code(&class), Some(5));
    }

    #[test]
    fn a_question_with_edns_is_answered_with_edns() {
        let mut asked = question("allowed.test", 1);
        asked[11] = 1;
        asked.extend_from_slice(&[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 2, 9, 9]);

        let reply = answer(&asked, names).unwrap();

        assert_eq!((reply[3] & 0x0f, reply[7], reply[11]), (0, 1, 1));
        assert!(reply.ends_with(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = answer(&bytes, names);
            let mut question = vec![0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
            question.extend_from_slice(&bytes);
            if let Some(reply) = answer(&question, names) {
                prop_assert!(reply.len() <= question.len() + 40);
            }
        }
    }
}

//! Numbers with which a relay ends streams and links.
//!
//! A relay sends numbers, the client owns the words: nothing that a relay says can
//! put text in front of a user.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$var_doc:meta])* $variant:ident = $number:literal, $words:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$var_doc])* $variant,)*
            /// A number that this build does not know.
            Unknown(u32),
        }

        impl $name {
            /// The number on the wire.
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Unknown(number) => number,
                }
            }

            /// Reads a number from the wire.
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($words),)*
                    Self::Unknown(number) => write!(f, "the relay says code {number}"),
                }
            }
        }
    };
}

codes! {
    /// Why a stream was reset.
    StreamCode {
        /// The sender gave up the stream for a reason of its own.
        Cancelled = 0x00, "the stream was given up";
        /// No wing with this id that this account may reach. Says nothing on whether it exists.
        NotFound = 0x01, "the relay knows no such wing for this account";
        /// The account's own wing is not connected.
        Offline = 0x02, "the relay says the wing is not connected";
        /// A limit on routes is reached; try later.
        Busy = 0x03, "the relay says too many routes are open";
        /// Data waited longer than the stated bound for a reader that took none.
        SlowConsumer = 0x04, "the relay ended a stream whose reader took nothing for too long";
        /// The header did not parse or came too late.
        Protocol = 0x05, "the relay could not read the stream header";
        /// The other end's link was lost.
        PeerLost = 0x06, "the relay lost the other end's link";
        /// The relay is shutting down.
        Draining = 0x07, "the relay is shutting down";
    }
}

codes! {
    /// Why a link was closed.
    LinkCode {
        /// Closed in order.
        Done = 0x10, "the link was closed in order";
        /// The token or proof was not accepted: log in again.
        Unauthenticated = 0x11, "the relay refused this device's sign-in";
        /// Another process with this identity took over.
        Replaced = 0x12, "another process uses this identity";
        /// A message did not parse or came out of turn.
        Protocol = 0x13, "the relay could not read this link's control stream";
        /// A limit on links is reached; try later.
        Busy = 0x14, "the relay says too many links are open";
        /// The relay is shutting down; connect again.
        Draining = 0x15, "the relay is shutting down";
        /// The proof was not renewed in time.
        Expired = 0x16, "the sign-in of this link ran out";
        /// This device was revoked.
        Revoked = 0x17, "this device was revoked";
        /// Something that had to come in time did not.
        TimedOut = 0x18, "the link was idle for too long";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_wire_and_stream_and_link_codes_differ() {
        for number in 0..0x40 {
            assert_eq!(StreamCode::from_number(number).number(), number);
            assert_eq!(LinkCode::from_number(number).number(), number);
            let both_known = !matches!(StreamCode::from_number(number), StreamCode::Unknown(_))
                && !matches!(LinkCode::from_number(number), LinkCode::Unknown(_));
            assert!(!both_known, "{number} means two things");
        }
    }
}

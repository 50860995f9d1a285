#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const SIZE: Size = Size { cols: 20, rows: 6 };
const ALL: usize = usize::MAX;

// Screens and what leads back to them.

#[test]
fn text_is_read_back_with_the_lines_before_it() {
    let mut model = small();
    for n in 1..=9 {
        model.feed(format!("line {n}\r\n").as_bytes());
    }

    let text = model.text(2);

    assert_eq!(
        lines(&text),
        [
            "line 3", "line 4", "line 5", "line 6", "line 7", "line 8", "line 9", ""
        ]
    );
    assert_eq!(text.first_visible, 2);
    assert_eq!(
        text.cursor,
        Cursor {
            row: 5,
            col: 0,
            visible: true
        }
    );
}

#[test]
fn a_long_line_is_marked_as_wrapped_and_joins_when_the_terminal_widens() {
    let mut model = small();
    model.feed(format!("{}END\r\n$ ", "x".repeat(50)).as_bytes());

    let wrapped: Vec<bool> = model
        .text(0)
        .lines
        .iter()
        .map(|line| line.wrapped)
        .collect();
    assert_eq!(wrapped, [true, true, false, false, false, false]);

    model.resize(Size { cols: 80, rows: 6 });
    assert_eq!(
        lines(&model.text(0))[..2],
        [format!("{}END", "x".repeat(50)), "$".to_owned()]
    );

    model.resize(Size { cols: 10, rows: 6 });
    let text = model.text(ALL);
    let joined: String = text
        .lines
        .iter()
        .take_while(|line| line.wrapped)
        .map(|line| &*line.text)
        .collect();
    assert_eq!(joined, "x".repeat(50));
    assert_restores(&model);
}

#[test]
fn leaving_a_full_screen_program_after_a_reattach_shows_the_shell_again() {
    let mut model = small();
    for n in 1..=20 {
        model.feed(format!("L{n}\r\n").as_bytes());
    }
    model.feed(
        b"$ vim\x1b[?1049h\x1b[22;0;0t\x1b[1;5r\x1b[H\x1b[2J~\r\n~\r\n\x1b[7mvim\x1b[m\x1b[?25l",
    );
    let before = model.snapshot(ALL);
    assert_eq!(count(&before, b"\x1b[?1049h"), 1);

    let mut client = restored(&model);
    assert_eq!(lines(&client.text(ALL)), ["~", "~", "vim", "", "", ""]);

    for model in [&mut model, &mut client] {
        model.feed(b"\x1b[23;0;0t\x1b[?25h\x1b[?1049l");
        let text = model.text(ALL);
        let expected: Vec<String> = (1..=20)
            .map(|n| format!("L{n}"))
            .chain(["$ vim".to_owned()])
            .collect();
        assert_eq!(lines(&text), expected);
        assert_eq!(
            text.cursor,
            Cursor {
                row: 5,
                col: 5,
                visible: true
            }
        );
    }
    assert_same(&model, &client);
}

#[test]
fn ten_reattaches_neither_repeat_history_nor_move_the_cursor() {
    let mut model = Model::new(Size { cols: 80, rows: 24 }, ModelLimits::default());
    for n in 1..=1_500 {
        model.feed(format!("{n}\r\n").as_bytes());
    }
    model.feed(b"$ \x1b[12;3H");
    let expected = model.text(ALL);

    for _ in 0..10 {
        model = restored(&model);
    }

    assert_eq!(model.text(ALL), expected);
}

#[test]
fn clear_moves_the_screen_to_the_history_and_only_3j_empties_it() {
    let mut model = small();
    model.feed(b"one\r\ntwo\x1b[H\x1b[2J");
    assert_eq!(lines(&model.text(ALL))[..2], ["one", "two"]);
    assert_restores(&model);

    model.feed(b"\x1b[3J");
    assert_eq!(model.text(ALL).first_visible, 0);
}

#[test]
fn a_snapshot_holds_no_more_history_than_asked() {
    let mut model = small();
    for n in 0..50 {
        model.feed(format!("{n}\r\n").as_bytes());
    }

    let mut client = small();
    client.feed(&model.snapshot(3));

    assert_eq!(client.text(ALL), model.text(3));
}

#[test]
fn each_state_survives_a_snapshot() {
    for stream in [
        // Pens.
        "\x1b[1;2;3;4;5;7;8;9;53mx",
        "\x1b[4:3;58:2::1:2:3mcurl\x1b[4:2;58;5;9mdouble\x1b[4:4mdot\x1b[4:5mdash\x1b[59;24mnone",
        "\x1b[31;42mansi\x1b[91;102mbright\x1b[38;5;200;48;5;100mindexed\x1b[38;2;1;2;3;48:2::4:5:6mrgb",
        "\x1b[41m\x1b[Kred to the edge\r\n\x1b[2J\x1b[44mblue",
        "\x1b[41m0123456789012345678901\x1b[m\r\n",
        "\x1b]8;id=a;https://example.test\x1b\\link\x1b]8;;\x1b\\ none \x1b]8;;https://other.test\x07open",
        // Text.
        "0123456789012345678\u{6f22}x",
        "0123456789012345678\u{6f22}\x1b[2;1Hab",
        "0123456789012345678\u{6f22}\x1b[2;1H\x1b[2K\r\nz",
        "e\u{301}a\u{308}\u{323} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{26a0}\u{fe0f}1\u{fe0f}\u{20e3}",
        "01234567890123456789\u{301}",
        "012345678901234567\u{6f22}",
        "01234567890123456789   \r\n   \r\n",
        "0123456789012345678901\x1b[2;1H\x1b[2K",
        "a\tb\tc",
        // Cursor.
        "0123456789012345678901234567890123456789",
        "01234567890123456789\x1b[1K",
        "01234567890123456789\x1b[2J",
        "abc\x1b[2;5H\x1b[31m\x1b7\x1b[m\x1b[4;4H",
        "01234567890123456789\x1b7\x1b[H",
        "\x1b[2;5r\x1b[?6h\x1b[2;2H\x1b7\x1b[3;4r\x1b[?6l\x1b[Hx",
        "\x1b[?25l\x1b[5 q",
        "\x1b[5 q\x1b[?12l",
        // Margins, tabs, character sets.
        "\x1b[2;4r\x1b[3;3H",
        "\x1b[2;4r\x1b[?6h\x1b[2;2H",
        "\x1b[3g\x1b[4G\x1bH\x1b[11G\x1bH\r",
        "\x1b(0lqk\x1b)A\x0e##\x0f",
        "\x1b*0\x1bnqqq",
        "\x1b(0\x1b7\x1b(Bx",
        // Modes.
        "\x1b[?1h\x1b=\x1b[?2004h\x1b[?1004h",
        "\x1b[?1002h\x1b[?1006h",
        "\x1b[?1003h\x1b[?1015h",
        "\x1b[?9h\x1b[?1005h",
        "\x1b[?1000h\x1b[?1016h\x1b[?1007h",
        "\x1b[4hx\x1b[20hy\x1b[?5h",
        "\x1b[?7l0123456789012345678901234",
        "\x1b[?2026hhalf",
        "\x1b[>7u\x1b[>1u",
        "\x1b[=5u",
        "\x1b[>1u\x1b[?1049h\x1b[>3u\x1b[>4;2m",
        // Names and colours.
        "\x1b]0;title\x07\x1b[22;0t\x1b]2;inner\x1b\\",
        "\x1b]4;1;rgb:12/34/56\x07\x1b]10;#fff\x07\x1b]11;rgb:1111/2222/3333\x07\x1b]12;#010203\x07",
        // Screens.
        "shell\x1b[?1049halt",
        "shell\x1b[?47halt",
        "\x1b[41mshell\x1b[?1049halt\x1b[2;3r\x1b7",
        "\x1b[2;3r\x1b[?6h\x1b[?1049h\x1b[Halt",
        "01234567890123456789\x1b[?1049h",
        // The middle of things.
        "x\x1b",
        "x\x1b[3",
        "x\x1b[38;5;1",
        "x\x1b(",
        "x\x1b]0;half a ti",
        "x\x1bP$qm",
        "x\x1b_Ga=q;AAA",
        "x\u{6f22}",
        "REP follows -",
        "\x1b[4h-abc\x1b[H-",
        "\x1b(0q",
        "0123456789012345678-",
    ] {
        let mut model = small();
        model.feed(stream.as_bytes());
        assert_restores_and_goes_on(&model, stream);
        for cut in 0..stream.len() {
            let mut model = small();
            model.feed(&stream.as_bytes()[..cut]);
            let mut client = restored(&model);
            for model in [&mut model, &mut client] {
                model.feed(&stream.as_bytes()[cut..]);
            }
            assert_same(&model, &client);
        }
    }
}

#[test]
fn mouse_modes_are_one_group_and_no_reset_follows_a_set() {
    let mut model = small();
    model.feed(b"\x1b[?1000h\x1b[?1002h\x1b[?1006h");

    let modes = model.modes();
    assert_eq!(
        (modes.mouse, modes.mouse_encoding),
        (Mouse::Drag, MouseEncoding::Sgr)
    );
    let snapshot = model.snapshot(0);
    assert_eq!(count(&snapshot, b"\x1b[?1002h\x1b[?1006h"), 1);
    assert_eq!(count(&snapshot, b"l"), 0);

    model.feed(b"\x1b[?1000l");
    assert_eq!(model.modes().mouse, Mouse::Off);
}

#[test]
fn keyboard_flags_are_stacked_again_in_order() {
    let mut model = small();
    model.feed(b"\x1b[>7u\x1b[>1u");
    let mut client = restored(&model);
    client.take_replies();

    client.feed(b"\x1b[?u\x1b[<u\x1b[?u\x1b[<5u\x1b[?u");

    assert_eq!(client.take_replies(), b"\x1b[?1u\x1b[?7u\x1b[?0u");
}

#[test]
fn each_screen_has_its_own_keyboard_flags() {
    let mut model = small();
    model.feed(b"\x1b[>7u\x1b[?1049h\x1b[?u\x1b[>3u\x1b[?u\x1b[?1049l\x1b[?u");

    assert_eq!(model.take_replies(), b"\x1b[?0u\x1b[?3u\x1b[?7u");
}

#[test]
fn repeating_a_character_works_across_a_reattach() {
    let mut model = small();
    model.feed(b"-");
    let mut client = restored(&model);

    client.feed(b"\x1b[4b");

    assert_eq!(lines(&client.text(0))[0], "-----");
}

#[test]
fn a_sequence_that_is_too_long_to_hand_on_is_swallowed_whole() {
    for (opening, filler, end) in [
        ("\x1b]52;c;", "A", "\x07"),
        ("\x1bPq", "?", "\x1b\\"),
        ("\x1b[", "1;", "m"),
    ] {
        let mut model = small();
        model.feed(opening.as_bytes());
        for _ in 0..20_000 {
            model.feed(filler.as_bytes());
        }
        let mut client = restored(&model);
        for model in [&mut model, &mut client] {
            model.feed(filler.as_bytes());
            model.feed(end.as_bytes());
            model.feed(b"OK");
            assert_eq!(lines(&model.text(0))[0], "OK");
        }
        assert_same(&model, &client);
    }
}

// Strings without meaning here, bad text, bad sizes.

#[test]
fn pictures_and_other_strings_never_reach_the_grid() {
    let mut model = small();
    model.feed(b"\x1b_Gi=1,a=q;AAAA\x1b\\\x1b^private\x1b\\\x1bXstart\x1b\\");
    model.feed(b"\x1bPq");
    for _ in 0..3_000 {
        model.feed(&[b'?'; 1000]);
    }
    model.feed(b"\x1b\\OK");

    assert_eq!(lines(&model.text(0))[0], "OK");
}

#[test]
fn text_after_a_cancelled_string_is_shown() {
    for opening in ["\x1bPzzz", "\x1b]0;title", "\x1b_Gabc", "\x1b[12;", "\x1b"] {
        let mut model = small();
        model.feed(format!("{opening}\x18OK").as_bytes());
        assert_eq!(lines(&model.text(0))[0], "OK");
        assert_eq!(model.title(), "");
    }
}

#[test]
fn broken_text_becomes_replacement_characters_wherever_it_is_cut() {
    let bytes = b"a\xffb\xe2\x82c\xf0\x9f\x98\x80\xc3\x1b[mz\xe6\xbc";
    let mut whole = small();
    whole.feed(bytes);
    assert_eq!(
        lines(&whole.text(0))[0],
        "a\u{fffd}b\u{fffd}c\u{1f600}\u{fffd}z"
    );

    let mut pieces = small();
    bytes.iter().for_each(|&byte| pieces.feed(&[byte]));

    assert_same(&whole, &pieces);
}

#[test]
fn absurd_sizes_are_clamped() {
    let mut model = Model::new(Size { cols: 0, rows: 0 }, ModelLimits::default());
    model.feed("a\u{6f22}b\r\n\x1b[999;999Hx".as_bytes());
    assert_eq!(
        model.size(),
        Size {
            cols: MIN_COLS,
            rows: MIN_ROWS
        }
    );

    model.resize(Size {
        cols: u16::MAX,
        rows: 1,
    });
    assert_eq!(
        model.size(),
        Size {
            cols: MAX_COLS,
            rows: 1
        }
    );
    assert_restores(&model);
}

#[test]
fn long_lines_do_not_grow_the_history_beyond_its_cap() {
    let mut model = Model::new(
        Size { cols: 80, rows: 24 },
        ModelLimits {
            scrollback_lines: 100,
        },
    );
    let line = vec![b'x'; 100_000];
    for _ in 0..20 {
        model.feed(&line);
        model.feed(b"\r\n");
    }

    assert_eq!(model.text(ALL).lines.len(), 124);
}

#[test]
fn a_wide_terminal_keeps_fewer_lines() {
    let limits = ModelLimits {
        scrollback_lines: 100_000,
    };
    let mut model = Model::new(
        Size {
            cols: 1000,
            rows: 2,
        },
        limits,
    );
    for _ in 0..3_000 {
        model.feed(b"x\r\n");
    }

    assert_eq!(model.text(ALL).lines.len(), 1_002);
}

#[test]
fn marks_links_and_titles_are_capped() {
    let mut model = small();
    model.feed(format!("e{}", "\u{301}".repeat(1000)).as_bytes());
    assert_eq!(lines(&model.text(0))[0].chars().count(), 9);

    model.feed(format!("\x1b]0;a\u{9b}{}\x07", "t".repeat(5000)).as_bytes());
    assert_eq!(model.title().len(), 1024);
    assert!(!model.title().chars().any(char::is_control));

    model.feed(format!("\x1b]8;;{}\x07x", "u".repeat(5000)).as_bytes());
    assert_eq!(count(&model.snapshot(0), b"uuu"), 0);
}

#[test]
fn widths_are_those_of_the_documented_table() {
    for (text, columns) in [
        ("\u{26a0}\u{fe0f}", 1),
        ("1\u{fe0f}\u{20e3}", 1),
        ("\u{1f5a5}\u{fe0f}", 1),
        ("\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}", 6),
        ("\u{1f1e9}\u{1f1ea}", 2),
        ("\u{1f44d}\u{1f3fd}", 4),
        ("\u{6f22}", 2),
        ("e\u{301}", 1),
    ] {
        let mut model = small();
        model.feed(text.as_bytes());
        let mut client = restored(&model);
        for model in [&mut model, &mut client] {
            model.take_replies();
            model.feed(b"\x1b[6n\x1b[1;15H|");
            assert_eq!(
                model.take_replies(),
                format!("\x1b[1;{}R", columns + 1).as_bytes(),
                "{text:?}"
            );
            let pipe = lines(&model.text(0))[0].chars().next_back();
            assert_eq!(pipe, Some('|'));
        }
        assert_same(&model, &client);
    }
}

// Answers and notices.

#[test]
fn each_query_is_answered_exactly_once() {
    for (query, answer) in [
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>0;320;0c"),
        ("\x1b[=c", "\x1bP!|00000000\x1b\\"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[3;4H\x1b[6n", "\x1b[3;4R"),
        ("\x1b[?6n", "\x1b[?1;1R"),
        ("01234567890123456789\x1b[6n", "\x1b[1;20R"),
        ("\x1b[2;5r\x1b[?6h\x1b[2;1H\x1b[6n", "\x1b[2;1R"),
        (
            "\x1b[?2004h\x1b[?2004$p\x1b[?2026$p\x1b[?2027$p",
            "\x1b[?2004;1$y\x1b[?2026;2$y\x1b[?2027;0$y",
        ),
        (
            "\x1b[4h\x1b[4$p\x1b[20$p\x1b[99$p",
            "\x1b[4;1$y\x1b[20;2$y\x1b[99;0$y",
        ),
        (
            "\x1b[>q",
            concat!("\x1bP>|wingthing(", env!("CARGO_PKG_VERSION"), ")\x1b\\"),
        ),
        ("\x1b]11;?\x1b\\", "\x1b]11;rgb:0000/0000/0000\x1b\\"),
        (
            "\x1b]10;?;?\x07",
            "\x1b]10;rgb:e5e5/e5e5/e5e5\x07\x1b]11;rgb:0000/0000/0000\x07",
        ),
        (
            "\x1b]11;#123456\x07\x1b]11;?\x07",
            "\x1b]11;rgb:1212/3434/5656\x07",
        ),
        (
            "\x1b]4;196;?;1;rgb:1/2/3;1;?\x07",
            "\x1b]4;196;rgb:ffff/0000/0000\x07\x1b]4;1;rgb:1111/2222/3333\x07",
        ),
        ("\x1b[1;31m\x1bP$qm\x1b\\", "\x1bP1$r0;1;31m\x1b\\"),
        ("\x1b[5 q\x1bP$q q\x1b\\", "\x1bP1$r5 q\x1b\\"),
        ("\x1b[2;4r\x1bP$qr\x1b\\", "\x1bP1$r2;4r\x1b\\"),
        ("\x1bP$qx\x1b\\", "\x1bP0$r\x1b\\"),
        ("\x1bP+q544e\x1b\\", "\x1bP0+r\x1b\\"),
        ("\x1b[18t", "\x1b[8;6;20t"),
        ("\x1b]52;c;?\x07", ""),
        ("no question", ""),
    ] {
        let mut model = small();
        query.bytes().for_each(|byte| model.feed(&[byte]));
        assert_eq!(
            String::from_utf8(model.take_replies()).unwrap(),
            answer,
            "{query:?}"
        );
        assert_eq!(model.take_replies(), b"");
        let mut client = restored(&model);
        assert_eq!(client.take_replies(), b"", "a snapshot asks nothing");
        assert_eq!(client.take_attention(), [], "and calls nobody");
    }
}

#[test]
fn answers_nobody_takes_are_bounded() {
    let mut model = small();
    for _ in 0..50_000 {
        model.feed(b"\x1b[c\x07");
    }

    let replies = model.take_replies();
    assert!(replies.len() <= 64 * 1024);
    assert!(replies.ends_with(b"c"));
    assert_eq!(model.take_attention(), [Attention::Bell]);
}

#[test]
fn bells_and_notifications_are_noticed_and_progress_is_not() {
    let mut model = small();
    model.feed(b"\x07\x1b]0;title\x07\x1b]9;4;1;50\x07\x1b]9;build done\x07");
    model.feed(b"\x1b]777;notify;Title;the body\x1b\\\x07");

    let notification = |title: Option<&str>, body: &str| Attention::Notification {
        title: title.map(str::to_owned),
        body: body.to_owned(),
    };
    assert_eq!(
        model.take_attention(),
        [
            Attention::Bell,
            notification(None, "build done"),
            notification(Some("Title"), "the body")
        ]
    );
    assert_eq!(model.take_attention(), []);
}

// Edits.

#[test]
fn edits_do_what_terminals_do() {
    for (stream, expected) in [
        ("abcdef\x1b[3G\x1b[2@", vec!["ab  cdef"]),
        ("abcdef\x1b[3G\x1b[2P", vec!["abef"]),
        ("abcdef\x1b[3G\x1b[2X", vec!["ab  ef"]),
        ("abcdef\x1b[3G\x1b[1K", vec!["   def"]),
        ("a\u{6f22}b\x1b[3G\x1b[Px", vec!["a x"]),
        ("a\u{6f22}b\x1b[2Gx", vec!["ax b"]),
        ("1\r\n2\r\n3\x1b[2H\x1b[L", vec!["1", "", "2", "3"]),
        ("1\r\n2\r\n3\x1b[H\x1b[M", vec!["2", "3"]),
        (
            "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3H\n",
            vec!["1", "3", "", "4"],
        ),
        ("1\r\n2\r\n3\x1b[H\x1bM", vec!["", "1", "2", "3"]),
        ("1\r\n2\x1b[T", vec!["", "1", "2"]),
        ("x\x1b[3b", vec!["xxxx"]),
        ("abc\x1b[Hx\x1b[4hy", vec!["xybc"]),
        (
            "01234567890123456789\x1b[K\x1b[1Dx",
            vec!["012345678901234567x9"],
        ),
        ("a\tb\x1b[Z\x1b[Zc", vec!["c       b"]),
        ("\x1b(0lqk\x1b(Blqk", vec!["\u{250c}\u{2500}\u{2510}lqk"]),
        (
            "\x1b[?7l0123456789012345678999ab",
            vec!["0123456789012345678b"],
        ),
        ("gone\x1bcnew", vec!["new"]),
        // Marks belong to the character, in REP as well; a second REP repeats nothing.
        ("e\u{301}\x1b[2b", vec!["e\u{301}e\u{301}e\u{301}"]),
        ("e\x1b[2b\x1b[2b", vec!["eee"]),
        // An insertion cuts a wide character at the edge and no other.
        (
            "\u{1f600}\u{1f600}0123456789abcd\u{1f600}\x1b[4h\rabc)",
            vec!["abc)\u{1f600}\u{1f600}0123456789ab"],
        ),
        // An unknown character set changes none.
        ("\x1b(0\x1b(Pq", vec!["\u{2500}"]),
        // A saved cursor does not wait to wrap.
        (
            "01234567890123456789\x1b7\x1b8x",
            vec!["0123456789012345678x"],
        ),
    ] {
        let mut model = small();
        model.feed(stream.as_bytes());
        let text = lines(&model.text(0));
        let used = text
            .iter()
            .rposition(|line| !line.is_empty())
            .map_or(0, |last| last + 1);
        assert_eq!(text[..used], expected, "{stream:?}");
        assert_restores_and_goes_on(&model, stream);
    }
}

#[test]
fn deleting_the_first_line_does_not_add_to_the_history() {
    let mut model = small();
    model.feed(b"1\r\n2\x1b[H\x1b[M");
    assert_eq!(model.text(ALL).first_visible, 0);

    model.feed(b"\x1b[6H\n");
    assert_eq!(model.text(ALL).first_visible, 1);
}

#[test]
fn scrolling_by_sequence_adds_nothing_to_the_history_and_a_line_feed_does() {
    let mut model = small();
    model.feed(b"1\r\n2\x1b[S");
    assert_eq!(model.text(ALL).first_visible, 0);
    assert_eq!(lines(&model.text(ALL))[0], "2");

    model.feed(b"\x1b[6H\n");
    assert_eq!(model.text(ALL).first_visible, 1);
}

#[test]
fn a_line_feed_ends_what_had_wrapped_there_and_a_carriage_return_does_not() {
    for (stream, wrapped) in [("\r\n", false), ("\r", true)] {
        let mut model = small();
        model.feed(b"01234567890123456789abc\x1b[H");
        model.feed(stream.as_bytes());
        assert_eq!(model.text(0).lines[0].wrapped, wrapped, "{stream:?}");
    }
}

#[test]
fn clearing_a_blank_screen_adds_nothing_to_the_history() {
    let mut model = small();
    model.feed(b"\x1b[44m\x1b[2J\x1b[2J");
    assert_eq!(model.text(ALL).first_visible, 0);
    assert_restores(&model);
}

#[test]
fn runs_of_text_are_drawn_as_single_characters_are() {
    let stream = "\x1b[31mplain text that wraps round the edge\x1b]8;;http://a\x07linked\x1b]8;;\x07 \
        \u{6f22}\u{6f22}\x1b[2;1Hover\x1b[4hinsert\x1b[4l\x1b[?7lcut at the edge of the row\x1b[?7h\x1b(0qqq";
    let mut runs = small();
    runs.feed(stream.as_bytes());
    let mut single = small();
    stream.bytes().for_each(|byte| single.feed(&[byte]));

    assert_same(&runs, &single);
}

// The user's own terminal.

#[test]
fn a_detach_leaves_nothing_on() {
    let mut outer = small();
    outer.feed(b"before \x1b[>5u");
    let mut session = small();
    let stream = "\x1b[?1h\x1b=\x1b[?1003h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[?2026h\x1b[>7u\x1b[>1u\x1b[?25l\
        \x1b[5 q\x1b[1;31m\x1b[2;4r\x1b[?6h\x1b[?7l\x1b[4h\x1b(0\x0e\x1b[>4;2m\x1b[?5h\x1b]11;#333\x07\x1b[?1049h\x1b[>3u";
    session.feed(stream.as_bytes());
    outer.feed(stream.as_bytes());
    assert_ne!(outer.modes(), Modes::default());

    outer.feed(&restore_outer(&session.modes()));

    assert_eq!(outer.modes(), Modes::default());
    outer.feed(b"\x1b[4;18Hlqk~~");
    assert_eq!(
        lines(&outer.text(0))[3..5],
        [format!("{}lqk", " ".repeat(17)), "~~".to_owned()]
    );
    assert_eq!(count(&outer.snapshot(0), b"\x1b[0;1"), 0);
    for off in [
        "?1000l", "?1002l", "?1003l", "?1005l", "?1006l", "?1015l", "?1004l", "?2004l", "?1l",
        "0 q",
    ] {
        assert_eq!(count(RESET, format!("\x1b[{off}").as_bytes()), 1);
    }
}

#[test]
fn a_detach_outside_the_alternate_screen_does_not_leave_it() {
    assert_eq!(count(&restore_outer(&Modes::default()), b"1049"), 0);
    let alt = Modes {
        alt_screen: true,
        ..Modes::default()
    };
    assert_eq!(count(&restore_outer(&alt), b"\x1b[?1049l"), 1);
}

#[test]
fn an_unfinished_string_does_not_swallow_the_reset() {
    let mut outer = small();
    outer.feed(b"\x1b[?1000h\x1b]0;half");
    outer.feed(RESET);
    assert_eq!(outer.modes().mouse, Mouse::Off);
}

#[test]
fn a_restart_makes_a_used_terminal_fresh() {
    let mut used = small();
    used.feed(b"text\x1b[3g\x1b[2;3r\x1b[?6h\x1b[?1003h\x1b[31m\x1b7\x1b(0\x1b[?1049h\x1b[>1u\x1b[>1u\x1b[2;3r\x1b[4");
    used.feed(&restart(SIZE));

    let snapshot = used.snapshot(0);
    let mut again = small();
    again.feed(&snapshot);
    assert_eq!(
        again.text(0),
        Model::new(SIZE, ModelLimits::default()).text(0)
    );
    assert_eq!(String::from_utf8(snapshot).unwrap(), "\x1b[1;1H\x1b[0m");
}

// Properties.

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// What was fed before the cut, the snapshot replaces: the text, a second snapshot and
    /// everything that follows are the same.
    #[test]
    fn a_snapshot_replaces_the_stream_before_it(
        size in sizes(),
        before in prop::collection::vec(step(), 0..60),
        cut in prop::collection::vec(0u8..=255, 0..4),
        after in prop::collection::vec(step(), 0..40),
    ) {
        let mut model = Model::new(size, ModelLimits { scrollback_lines: 12 });
        before.iter().for_each(|step| step.apply(&mut model));
        model.feed(&cut);
        let mut client = Model::new(model.size(), ModelLimits { scrollback_lines: 12 });
        client.feed(&model.snapshot(ALL));
        prop_assert_eq!(client.take_replies(), b"");
        model.take_replies();
        prop_assert_eq!(dump(&model), dump(&client));

        for (index, step) in after.iter().enumerate() {
            step.apply(&mut model);
            step.apply(&mut client);
            prop_assert_eq!(dump(&model), dump(&client), "after step {}: {:?}", index, step);
        }
        prop_assert_eq!(model.take_replies(), client.take_replies());
    }

    #[test]
    fn cutting_a_stream_changes_nothing(bytes in noise(), cut in any::<prop::sample::Index>()) {
        let mut whole = small();
        whole.feed(&bytes);
        let mut pieces = small();
        let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
        pieces.feed(first);
        pieces.feed(second);

        prop_assert_eq!(dump(&whole), dump(&pieces));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Feed(Vec<u8>),
    Resize(Size),
}

impl Step {
    fn apply(&self, model: &mut Model) {
        match self {
            Self::Feed(bytes) => model.feed(bytes),
            Self::Resize(size) => model.resize(*size),
        }
    }
}

fn sizes() -> impl Strategy<Value = Size> {
    (0u16..14, 0u16..7).prop_map(|(cols, rows)| Size { cols, rows }.clamped())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => sequence().prop_map(Step::Feed),
        6 => text().prop_map(Step::Feed),
        1 => noise().prop_map(Step::Feed),
        1 => sizes().prop_map(Step::Resize),
    ]
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![3 => any::<u8>(), 2 => Just(0x1b), 2 => b' '..=b'~', 1 => prop::sample::select(b"[]P();?0123456789hlm".to_vec())],
        0..40,
    )
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z#q -]{1,9}",
        2 => "[\u{6f22}a\u{301}\u{1f600}\u{200d}\u{fe0f}]{1,7}",
        1 => "[ ]{1,20}",
        1 => Just("\r\n\r\n".to_owned()),
    ]
    .prop_map(String::into_bytes)
}

fn sequence() -> impl Strategy<Value = Vec<u8>> {
    let number = 0u16..9;
    let csi = (
        prop::sample::select(b"@ABCDEFGHIJKLMPSTXZ`abcdefgmnrsu".to_vec()),
        prop::collection::vec(number, 0..3),
    )
        .prop_map(|(last, numbers)| {
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            format!("\x1b[{}{}", numbers.join(";"), last as char)
        });
    let mode = (
        prop::sample::select(vec![
            "4", "20", "?1", "?5", "?6", "?7", "?9", "?12", "?25", "?47", "?66", "?1000", "?1002",
            "?1003", "?1004", "?1005", "?1006", "?1007", "?1015", "?1016", "?1047", "?1048",
            "?1049", "?2004", "?2026",
        ]),
        prop::bool::weighted(0.6),
    )
        .prop_map(|(mode, on)| format!("\x1b[{mode}{}", if on { 'h' } else { 'l' }));
    let sgr = prop::sample::select(vec![
        "0",
        "1",
        "2",
        "3",
        "4",
        "4:3",
        "4:0",
        "21",
        "5",
        "7",
        "8",
        "9",
        "22",
        "24",
        "25",
        "27",
        "31",
        "39",
        "41",
        "44",
        "49",
        "53",
        "55",
        "97",
        "101",
        "38;5;99",
        "48;2;1;2;3",
        "58:5:7",
        "58:2::9:8:7",
        "59",
        "38;5",
        "48;2;1",
    ])
    .prop_map(|sgr| format!("\x1b[{sgr}m"));
    let fixed = prop::sample::select(vec![
        "\x1b7",
        "\x1b8",
        "\x1bD",
        "\x1bE",
        "\x1bH",
        "\x1bM",
        "\x1bc",
        "\x1bn",
        "\x1bo",
        "\x1b=",
        "\x1b>",
        "\x1b#8",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x1b*A",
        "\x0e",
        "\x0f",
        "\n",
        "\r",
        "\x08",
        "\t",
        "\x07",
        "\x0b",
        "\x18",
        "\x1b[!p",
        "\x1b[5 q",
        "\x1b[0 q",
        "\x1b[>5u",
        "\x1b[=3u",
        "\x1b[=4;2u",
        "\x1b[<u",
        "\x1b[>4;1m",
        "\x1b[3g",
        "\x1b]0;t\u{e9}\x07",
        "\x1b]2;u\x1b\\",
        "\x1b[22;0t",
        "\x1b[23;0t",
        "\x1b]8;id=x;http://a\x07",
        "\x1b]8;;\x07",
        "\x1b]8;;http://b\x1b\\",
        "\x1b]4;3;#123\x07",
        "\x1b]104\x07",
        "\x1b]11;#456\x07",
        "\x1b]111\x07",
        "\x1b]4;3;?\x07",
        "\x1b[6n",
        "\x1bP$qm\x1b\\",
        "\x1b_Gx\x1b\\",
        "\x1b_un",
        "\x1b]9;x",
        "\x1bP1;2q",
        "\x1b[?u",
        "\x1b[3J",
        "\x1b[2J",
        "\x1b[99;99H",
        "\x1b[;9H",
        "\x1b[2;4r",
        "\x1b[r",
    ])
    .prop_map(str::to_owned);
    prop_oneof![4 => csi, 2 => mode, 2 => sgr, 4 => fixed].prop_map(String::into_bytes)
}

fn small() -> Model {
    Model::new(SIZE, ModelLimits::default())
}

fn restored(model: &Model) -> Model {
    let mut client = Model::new(model.size(), ModelLimits::default());
    client.feed(&model.snapshot(ALL));
    client
}

/// Everything that can be seen of a model. The snapshot names every state, and is text that
/// a failure can show.
fn dump(model: &Model) -> (String, ScreenText) {
    (
        String::from_utf8_lossy(&model.snapshot(ALL)).into_owned(),
        model.text(ALL),
    )
}

fn assert_same(left: &Model, right: &Model) {
    assert_eq!(dump(left), dump(right));
}

fn assert_restores(model: &Model) {
    assert_same(model, &restored(model));
}

/// A restored model behaves like the first one, too.
fn assert_restores_and_goes_on(model: &Model, stream: &str) {
    for rest in [
        "x",
        "\u{6f22}",
        "\u{301}",
        "\x1b[3b",
        "\x1b8y",
        "\n\n\n\n\n\n\nz",
        "\tt\tt",
        "\x1b[?1049lw",
        "\x1b[Kq\x1b[Jq",
        "\x1b\\lqk",
    ] {
        let (mut one, mut two) = (restored(model), restored(model));
        assert_eq!(dump(model), dump(&one), "{stream:?}");
        one = restored(&one);
        for model in [&mut one, &mut two] {
            model.feed(rest.as_bytes());
        }
        assert_eq!(dump(&one), dump(&two), "{stream:?} then {rest:?}");
    }
}

fn lines(text: &ScreenText) -> Vec<String> {
    text.lines.iter().map(|line| line.text.clone()).collect()
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes
        .windows(part.len())
        .filter(|window| *window == part)
        .count()
}

// SPDX-License-Identifier: GPL-2.0
//! Pictures.

use crate::common::{golden, path, scratch};
use huvm_results::draw::{Anchor, Colour, Scene, BLACK};
use huvm_results::events::{parse, read, Event, Place, Traffic, What};
use huvm_results::failure::Failure;
use huvm_results::plot::{bars, heat, timeline};
use huvm_results::rows;
use proptest::prelude::*;

/// Size and pixels of a PNG.
fn pixels(png: &[u8]) -> ((u32, u32), Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png))
        .read_info()
        .unwrap();
    let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut rgb).unwrap();
    ((info.width, info.height), rgb)
}

fn pixel(png: &[u8], x: u32, y: u32) -> Colour {
    let ((w, _), rgb) = pixels(png);
    let at = ((y * w + x) * 3) as usize;
    Colour(rgb[at], rgb[at + 1], rgb[at + 2])
}

/// Catches an element drawn at another place in one of the two, and colours that are mixed up.
#[test]
fn both_forms_show_the_same() {
    let red = Colour(200, 0, 0);
    let mut s = Scene::new();
    s.rect(2, 3, 10, 5, red);
    s.rect(4, 4, 0, 9, BLACK);
    s.text(40, 2, Anchor::End, BLACK, "a<\u{e9}");
    s.margin(4);
    let (w, h) = s.size();
    let png = s.png().unwrap();
    assert_eq!(pixels(&png).0, (w as u32, h as u32));
    assert_eq!(pixel(&png, 2, 3), red);
    assert_eq!(pixel(&png, 11, 7), red);
    for (x, y) in [(1, 3), (12, 3), (2, 8)] {
        assert_eq!(pixel(&png, x, y), Colour(255, 255, 255));
    }
    // Something dark in the text's box.
    let dark = |x, y| pixel(&png, x, y).0 < 100;
    assert!((20..40).any(|x| (2..18).any(|y| dark(x, y))));
    let svg = s.svg();
    assert!(svg.contains(r##"<rect x="2" y="3" width="10" height="5" fill="#c80000"/>"##));
    assert!(svg.contains(">a&lt;?</text>"));
    assert!(matches!(Scene::new().png(), Err(Failure::Check(_))));
}

#[test]
fn bars_are_measured_by_the_baseline_of_their_group() {
    let files = rows::read(&path("data/a")).unwrap();
    let groups = bars::groups(&files[1], "stock-460");
    let names: Vec<&str> = groups.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "steady",
            "spare-5",
            "reclaim, spare 0.00",
            "reclaim, spare 0.54"
        ]
    );
    assert_eq!(groups[0].baseline, "stock-460");
    let (preset, faster, time) = &groups[0].bars[2];
    assert_eq!((preset.as_str(), *time), ("memharvester", 18_400_000));
    assert!((faster - 97.5 / 18.4).abs() < 1e-9);
    // Where it is not in the group, the first one.
    assert_eq!(groups[2].baseline, "memharvester");
    let demo = bars::groups(&files[0], bars::BASELINE);
    assert_eq!(demo[1].name, "demo, ratio 1.50, GPUs 4");
    golden("bars.svg", &bars::draw("demo", &demo).svg());
}

fn recording() -> Vec<Event> {
    read(&path("data/cycle.jsonl")).unwrap()
}

/// Same input, same bytes. Catches an order of a hash table, and a clock.
#[test]
fn pictures_are_the_same_each_time() {
    let files = rows::read(&path("data/a")).unwrap();
    let all = || {
        let groups = bars::groups(&files[1], bars::BASELINE);
        let e = recording();
        [
            bars::draw("x", &groups),
            timeline::draw("x", &e),
            heat::residency("x", &e),
            heat::access("x", &e),
        ]
        .map(|s| (s.svg(), s.png().unwrap()))
    };
    assert!(all() == all());
}

#[test]
fn a_timeline_has_its_lanes() {
    let svg = timeline::draw("cycle", &recording()).svg();
    for lane in [
        ">gpu0 to gpu1<",
        ">gpu0 to host<",
        ">gpu1 to gpu0<",
        ">host to gpu0<",
        ">write-backs<",
        ">faults<",
        ">evictions in faults<",
        ">launches end<",
    ] {
        assert!(svg.contains(lane), "{lane}");
    }
    // A bar is four columns.
    assert!(svg.contains(">56.0 MiB, 4.7 GB/s over all; at most 2.0 MiB in 78.0 us<"));
    assert!(svg.contains(">3; at most 1 in 78.0 us<"));
}

fn at(time_ns: u64, place: Place, what: What) -> Event {
    Event {
        seq: time_ns,
        time_ns,
        pid: 1,
        place,
        va: 5 << 21,
        bytes: 2 << 20,
        what,
    }
}

/// Pixels of a colour that is neither grey nor white in a column of a lane: how high its bar is. The first lane is at 48.
fn high(png: &[u8], left: u32, column: u32, lane: u32) -> usize {
    let ((w, _), rgb) = pixels(png);
    let bar = |y: &u32| {
        let at = ((y * w + left + column) * 3) as usize;
        rgb[at].abs_diff(rgb[at + 1]) > 20 || rgb[at].abs_diff(rgb[at + 2]) > 20
    };
    let top = 48 + lane * 48;
    (top..top + 40).filter(bar).count()
}

/// An engine is busy while any of its copies is not over, each moment once. Catches copies that are added up, one drawn where it
/// ends alone, engines of two GPUs taken for one, and two kinds of copies on one engine taken for two.
#[test]
fn an_engine_is_busy_while_it_has_something() {
    let copy = |end, ns, gpu, engine, traffic| {
        let what = What::Copy {
            engine,
            traffic,
            ns,
        };
        at(end, Place::Gpu(gpu), what)
    };
    let events = [
        at(0, Place::Host, What::Fault),
        // 100 to 300 and 200 to 400: 300 ns of 640.
        copy(300, 200, 0, 3, Traffic::ToHost),
        copy(400, 200, 0, 3, Traffic::Within),
        copy(639, 64, 1, 3, Traffic::FromPeers),
    ];
    let scene = timeline::draw("x", &events);
    let (svg, png) = (scene.svg(), scene.png().unwrap());
    for text in [
        ">gpu0 CE3 to host, within<",
        ">has work 47 % of the time, 2 copies<",
        ">gpu1 CE3 from peers<",
        ">has work 10 % of the time, 1 copies<",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    let left = 28 + huvm_results::draw::width("gpu0 CE3 to host, within") as u32;
    let busy = |lane| {
        let columns = (0..640).filter(|c| high(&png, left, *c, lane) >= 39);
        columns.collect::<Vec<_>>()
    };
    assert_eq!(busy(0), (100..400).collect::<Vec<_>>());
    assert_eq!(busy(1), (575..639).collect::<Vec<_>>());
}

/// What goes over a link: evictions too, a write-back over its time; not what is filled with zeroes, which comes from nowhere.
#[test]
fn a_link_carries_what_is_copied() {
    let (gpu, host) = (Place::Gpu(0), Place::Host);
    let migrate = |time_ns, from, to| at(time_ns, to, What::Migrate { from, to });
    let events = [
        migrate(0, Place::Nowhere, gpu),
        migrate(100, gpu, host),
        at(101, gpu, What::Evict { in_fault: false }),
        at(300, gpu, What::Evict { in_fault: true }),
        at(639, Place::Gpu(1), What::WriteBack(320)),
    ];
    let scene = timeline::draw("x", &events);
    let svg = scene.svg();
    assert!(!svg.contains("nowhere") && !svg.contains(">host to"));
    for lane in [
        ">gpu0 to host<",
        ">gpu1 to host<",
        ">write-backs<",
        ">evictions in faults<",
        ">evictions ahead<",
    ] {
        assert!(svg.contains(lane), "{lane}");
    }
    let png = scene.png().unwrap();
    let left = 28 + huvm_results::draw::width("evictions in faults") as u32;
    let there = |lane, column| high(&png, left, column, lane) > 0;
    assert_eq!(
        [0, 99, 100, 103, 104].map(|c| there(0, c)),
        [false, false, true, true, false]
    );
    assert_eq!(
        [315, 316, 500, 639].map(|c| there(1, c)),
        [false, true, true, true]
    );
}

fn moved(time_ns: u64, block: u64, to: Place) -> Event {
    Event {
        seq: time_ns,
        time_ns,
        pid: 1,
        place: to,
        va: block << 21,
        bytes: 4096,
        what: What::Migrate {
            from: Place::Host,
            to,
        },
    }
}

/// A block is where it went last, from then on; before, nothing is known. Catches a picture that is late by a column, and rows
/// in another order than addresses.
#[test]
fn a_heat_map_shows_where_blocks_are() {
    let events = [
        moved(0, 7, Place::Gpu(0)),
        moved(100, 5, Place::Gpu(1)),
        moved(300, 7, Place::Host),
        moved(639, 5, Place::Gpu(1)),
    ];
    let png = heat::residency("x", &events).png().unwrap();
    // A column a nanosecond, 8 pixels a row; block 5 above block 7.
    let at = |column: u32, row: u32| pixel(&png, 32 + column, 80 + row * 8 + 4);
    let (gpu0, gpu1) = (at(0, 1), at(100, 0));
    assert_ne!(gpu0, gpu1);
    assert_eq!(at(299, 1), gpu0);
    assert_ne!(at(300, 1), gpu0);
    assert_ne!(at(300, 1), Colour(255, 255, 255));
    assert_eq!(at(99, 0), Colour(255, 255, 255));
    assert_eq!(at(639, 0), gpu1);
}

/// A block that leaves its GPU without a copy is at the host; so is one whose lent chunk goes to another. Catches blocks that stay
/// where they were, and one that is sent to a neighbour when it is evicted and taken for the host's.
#[test]
fn a_block_that_is_evicted_is_elsewhere() {
    let (own, spare) = (Place::Gpu(0), Place::Gpu(1));
    let of = |block: u64, e: Event| Event {
        va: block << 21,
        ..e
    };
    let lend_of = |time, block, chunk| of(block, at(time, spare, What::Lend { chunk }));
    let lend = |time, block| lend_of(time, block, 9);
    let evict = |time, block| of(block, at(time, own, What::Evict { in_fault: true }));
    let events = [
        moved(0, 5, own),
        moved(1, 7, own),
        evict(200, 5),
        lend(300, 7),
        moved(300, 7, spare),
        evict(301, 7),
        lend(500, 5),
        // Fetched back, and away again to another chunk: the first one is nothing to it any more.
        lend(505, 7),
        moved(505, 7, spare),
        moved(510, 7, own),
        lend_of(520, 7, 10),
        moved(520, 7, spare),
        lend(530, 6),
        lend(540, 5),
        moved(639, 5, own),
    ];
    let scene = heat::residency("x", &events);
    let (svg, png) = (scene.svg(), scene.png().unwrap());
    for place in [">gpu0<", ">gpu1<", ">host<"] {
        assert!(svg.contains(place), "{place}");
    }
    let cell = |column: u32, row: u32| pixel(&png, 32 + column, 80 + row * 8 + 4);
    let (own, spare, host) = (cell(1, 0), cell(300, 1), cell(200, 0));
    assert!(own != spare && spare != host && own != host);
    assert_eq!([cell(199, 0), cell(638, 0), cell(639, 0)], [own, host, own]);
    assert_eq!(
        [cell(299, 1), cell(499, 1), cell(500, 1)],
        [own, spare, host]
    );
    assert_eq!([cell(515, 1), cell(638, 1)], [own, spare]);
}

/// Faults are counted where and when they were. Catches a map that is transposed, and one that shows all alike.
#[test]
fn a_heat_map_shows_which_blocks_fault() {
    let fault = |time_ns, block: u64| Event {
        va: block << 21,
        bytes: 4096,
        ..at(time_ns, Place::Gpu(0), What::Fault)
    };
    let mut events = vec![fault(0, 5), fault(639, 7)];
    events.extend([fault(100, 7); 4]);
    let scene = heat::access("x", &events);
    let (svg, png) = (scene.svg(), scene.png().unwrap());
    assert!(svg.contains(">1 fault<") && svg.contains(">4 faults<"));
    let cell = |column: u32, row: u32| pixel(&png, 32 + column, 80 + row * 8 + 4);
    let (once, often) = (cell(0, 0), cell(100, 1));
    assert_ne!(once, often);
    // A dot is four columns.
    assert_eq!(
        [cell(636, 1), cell(3, 0), cell(103, 1)],
        [once, once, often]
    );
    assert!(once.1 > often.1);
    for (column, row) in [(2, 1), (102, 0), (104, 1)] {
        assert_eq!(cell(column, row), Colour(255, 255, 255));
    }
}

/// Catches a path that begins each rectangle at the wrong corner, and one that takes those of another colour along.
#[test]
fn many_rectangles_of_a_colour_are_a_path() {
    let (red, blue) = (Colour(200, 0, 0), Colour(0, 0, 200));
    let mut s = Scene::new();
    for i in 0..8 {
        s.rect(10 + i * 3, 50 - i, 2, 4, red);
    }
    s.rect(1, 2, 3, 4, blue);
    let svg = s.svg();
    let all = "m3 -1h2v4h-2z".repeat(7);
    let path = format!(r##"<path fill="#c80000" d="m10 50h2v4h-2z{all}"/>"##);
    assert!(svg.contains(&path), "{svg}");
    assert!(svg.contains(r##"<rect x="1" y="2" width="3" height="4" fill="#0000c8"/>"##));
    assert_eq!(svg.matches("#c80000").count(), 1);
}

/// Lines of a recording as the tool writes them.
#[test]
fn copies_and_evictions_are_read() {
    let line = |kind: &str, cause: &str, arg0: u64, arg1: u64| {
        format!(
            r#"{{"seq":0,"time_ns":900,"type":"{kind}","cause":"{cause}","pid":0,"place":"gpu2","va":"0x0","length_bytes":0,"arg0":{arg0},"arg1":{arg1},"dropped":0}}"#
        )
    };
    let copy = parse(&line("copy", "peer-in", 17, 300)).unwrap();
    let what = What::Copy {
        engine: 17,
        traffic: Traffic::FromPeers,
        ns: 300,
    };
    assert_eq!((copy.place, copy.what), (Place::Gpu(2), what));
    assert!(parse(&line("copy", "sideways", 17, 300)).is_err());
    let of = |kind, arg0, arg1| parse(&line(kind, "eviction", arg0, arg1)).unwrap().what;
    assert_eq!(of("evict", 4, 1), What::Evict { in_fault: true });
    assert_eq!(of("lend", 0, 4), What::Lend { chunk: 4 });
    let (host, none) = (u64::from(u32::MAX), u64::from(u32::MAX) - 1);
    let migrate = |from, to| What::Migrate { from, to };
    assert_eq!(of("migrate", host, 1), migrate(Place::Host, Place::Gpu(1)));
    assert_eq!(
        of("migrate", none, host),
        migrate(Place::Nowhere, Place::Host)
    );
}

#[test]
fn what_is_no_event_is_refused() {
    let dir = scratch("events");
    let good = std::fs::read_to_string(path("data/cycle.jsonl")).unwrap();
    let first = good.lines().next().unwrap();
    // As events --json has it.
    let wrapped = format!(r#"{{"schema":"uvmctl.event/1","data":{first},"warnings":[]}}"#);
    assert_eq!(parse(&wrapped), parse(first));
    for (text, why) in [
        (String::new(), "no events"),
        (format!("{first}\nnonsense\n"), ":2:"),
        (format!("{first}\n{{\"seq\":1}}\n"), ":2:"),
        (first.replace("0x7f", "0xzz"), "no address"),
    ] {
        let file = dir.join("x.jsonl");
        std::fs::write(&file, text).unwrap();
        let e = read(&file).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever a file has: a picture of some size. Catches an overflow of times, addresses and lengths.
    #[test]
    fn any_events_make_a_picture(list in proptest::collection::vec((
        prop_oneof![0u64..1000, any::<u64>()],
        prop_oneof![0u64..1 << 24, any::<u64>()],
        prop_oneof![0u64..1 << 23, any::<u64>()],
        0u32..8,
    ), 1..12)) {
        let events: Vec<Event> = (0u64..).zip(list).map(|(seq, (time_ns, va, bytes, kind))| Event {
            seq,
            time_ns,
            pid: kind / 3,
            place: Place::Gpu(kind % 2),
            va,
            bytes,
            what: match kind {
                0 => What::Fault,
                1 => What::Migrate { from: Place::Host, to: Place::Gpu(kind) },
                2 => What::Migrate { from: Place::Gpu(0), to: Place::Host },
                3 => What::Evict { in_fault: va % 2 == 0 },
                5 => What::Copy { engine: va % 3, traffic: Traffic::FromHost, ns: bytes },
                6 => What::Lend { chunk: bytes % 4 },
                4 => What::WriteBack(time_ns),
                _ => What::LaunchEnd,
            },
        }).collect();
        for scene in [timeline::draw("x", &events), heat::residency("x", &events), heat::access("x", &events)] {
            let (w, h) = scene.size();
            prop_assert!(w > 0 && w < 4000 && h > 0 && h < 4000, "{} {}", w, h);
        }
    }
}

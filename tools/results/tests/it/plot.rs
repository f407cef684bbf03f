// SPDX-License-Identifier: GPL-2.0
//! Pictures.

use crate::common::{golden, path, scratch};
use huvm_results::draw::{Anchor, Colour, Scene, BLACK};
use huvm_results::events::{parse, read, Event, Place, What};
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
        ">evictions<",
        ">launches end<",
    ] {
        assert!(svg.contains(lane), "{lane}");
    }
    assert!(svg.contains(">56.0 MiB, 4.7 GB/s over all; at most 2.0 MiB in 19.5 us<"));
    assert!(svg.contains(">3; at most 1 in 19.5 us<"));
}

fn moved(time_ns: u64, block: u64, to: Place) -> Event {
    Event {
        seq: time_ns,
        time_ns,
        pid: 1,
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
        0u32..6,
    ), 1..12)) {
        let events: Vec<Event> = (0u64..).zip(list).map(|(seq, (time_ns, va, bytes, kind))| Event {
            seq,
            time_ns,
            pid: kind / 3,
            va,
            bytes,
            what: match kind {
                0 => What::Fault,
                1 => What::Migrate { from: Place::Host, to: Place::Gpu(kind) },
                2 => What::Migrate { from: Place::Gpu(0), to: Place::Host },
                3 => What::Evict,
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

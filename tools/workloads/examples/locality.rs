// SPDX-License-Identifier: GPL-2.0
//! How far the edges of the generated graphs reach: for each kind, the share of edges whose ends are less than a power of two apart, and
//! the mean degree. `cargo run --release -p huvm_workloads --example locality [SCALE [DEGREE]]`

use huvm_workloads::graph::csr::Csr;
use huvm_workloads::graph::rmat::Kind;
use huvm_workloads::graph::Size;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |usual: u64| args.next().and_then(|a| a.parse().ok()).unwrap_or(usual);
    let (scale, degree) = (number(18).clamp(4, 24) as u32, number(16).clamp(1, 64));
    let size = Size {
        scale,
        edges: (2 * degree) << scale,
    };
    println!(
        "{} vertices, {:.1} edges each in one direction; % of the edges that reach less far than",
        size.vertices(),
        size.degree()
    );
    for (name, kind) in [("social", Kind::Social), ("web", Kind::Web)] {
        let g = Csr::generate(size, kind, 1);
        let mut by_power = vec![0u64; scale as usize + 1];
        for u in 0..g.vertices() {
            for v in g.neighbours(u) {
                let bits = usize::BITS - u.abs_diff(v).leading_zeros();
                if let Some(n) = by_power.get_mut(bits as usize) {
                    *n += 1;
                }
            }
        }
        let mut sum = 0;
        let shares = by_power.iter().enumerate().map(|(bits, n)| {
            sum += n;
            format!("2^{bits} {:.1}", 100.0 * sum as f64 / size.edges as f64)
        });
        println!("{name}: {}", shares.collect::<Vec<_>>().join(", "));
    }
}

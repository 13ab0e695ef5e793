//! Rings of a directed graph: its strongly connected components of at least two nodes.
//!
//! Invariant: no node is in two rings, and without the rings' inner edges the graph has an order.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the rings of a graph, given the successors of each node.
pub fn rings<T: Clone + Ord>(graph: &BTreeMap<T, BTreeSet<T>>) -> Vec<BTreeSet<T>> {
    let reached: BTreeMap<&T, BTreeSet<&T>> =
        graph.keys().map(|node| (node, reached(graph, node))).collect();
    let mut out: Vec<BTreeSet<T>> = vec![];
    for (node, there) in &reached {
        let mutual = |other: &&&T| reached.get(**other).is_some_and(|back| back.contains(node));
        let ring: BTreeSet<T> = there.iter().filter(mutual).map(|n| (*n).clone()).collect();
        if ring.len() > 1 && ring.first() == Some(*node) {
            out.push(ring);
        }
    }
    out
}

fn reached<'g, T: Ord>(graph: &'g BTreeMap<T, BTreeSet<T>>, from: &'g T) -> BTreeSet<&'g T> {
    let (mut met, mut waiting) = (BTreeSet::new(), vec![from]);
    while let Some(node) = waiting.pop() {
        waiting.extend(graph.get(node).into_iter().flatten().filter(|next| met.insert(*next)));
    }
    met
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(edges: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let mut graph: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry(*from).or_default().insert(*to);
        }
        rings(&graph).into_iter().map(|r| r.into_iter().collect()).collect()
    }

    #[test]
    fn rings_are_strongly_connected_components() {
        assert_eq!(found(&[(1, 2), (2, 3), (1, 3), (4, 4)]), Vec::<Vec<u32>>::new());
        assert_eq!(
            found(&[(1, 2), (2, 1), (2, 3), (3, 4), (4, 5), (5, 3), (6, 1)]),
            [vec![1, 2], vec![3, 4, 5]]
        );
        assert_eq!(found(&[(1, 2), (2, 3), (3, 1), (3, 4), (4, 2)]), [vec![1, 2, 3, 4]]);
    }
}

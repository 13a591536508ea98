//! Keys and certificates that do not fit. A third node, whose keys do, goes on meanwhile.

use crate::harness::{Keys, Node, PATIENCE, introduce, peer};
use portolan_peer::pki::{Identity, Pin};

/// Two nodes that must not meet, and one that meets both.
struct Trio {
    bj1: Node,
    fra1: Node,
    good: Node,
}

/// `fra1` has this identity, and `bj1` believes that its pin is `pin`.
async fn trio(keys: &Keys, identity: Identity, pin: Pin) -> Trio {
    let bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let fra1 = Node::start("fra1", identity.clone()).await;
    let good = Node::start("good", keys.identity("good")).await;
    bj1.handle
        .set_peers(vec![peer("fra1", fra1.address(), pin), peer("good", good.address(), keys.pin("good"))]);
    fra1.handle.set_peers(vec![peer("bj1", bj1.address(), keys.pin("bj1"))]);
    good.handle.set_peers(vec![peer("bj1", bj1.address(), keys.pin("bj1"))]);
    good.publish("www-good");
    Trio { bj1, fra1, good }
}

impl Trio {
    /// Each side names its reason, both ways of dialling are refused, and the good one is served.
    async fn refuse(&mut self, label: &str, at_bj1: &str, at_fra1: &str) {
        let Self { bj1, fra1, good } = self;
        bj1.until(at_bj1, |node| node.last_error("fra1").contains(at_bj1)).await;
        bj1.until(label, |node| node.refused(label) >= 2).await;
        fra1.until(at_fra1, |node| node.last_error("bj1").contains(at_fra1)).await;
        bj1.until_claimed("good", "www-good").await;
        good.until_up("bj1").await;
        assert!(!bj1.is_up("fra1") && !fra1.is_up("bj1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_certificate() {
    let keys = Keys::new();
    let expired = keys.identity_at("fra1", -20, Some(10));
    let pin = expired.pin();
    trio(&keys, expired, pin)
        .await
        .refuse("expired", "the certificate of fra1 expired at", "expired or not yet valid")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_yet_valid() {
    let keys = Keys::new();
    let future = keys.identity_at("fra1", 20, Some(10));
    let pin = future.pin();
    let told = "the certificate of fra1 is not valid before";
    trio(&keys, future, pin).await.refuse("not-yet-valid", told, "expired or not yet valid").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_the_pinned_one() {
    let keys = Keys::new();
    let other = keys.pin("other");
    trio(&keys, keys.identity("fra1"), other)
        .await
        .refuse("wrong-pin", "is configured with another pin", "pin")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_another_peer() {
    let keys = Keys::new();
    // fra1 answers with the key of good
    let mut trio = trio(&keys, keys.identity("good"), keys.pin("fra1")).await;
    trio.bj1
        .until("the wrong one answers", |node| {
            node.last_error("fra1").contains("good answers at the address of fra1")
        })
        .await;
    assert!(trio.bj1.refused("wrong-pin") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_ca() {
    let keys = Keys::new();
    let foreign = Keys::new().identity("fra1");
    let pin = foreign.pin();
    trio(&keys, foreign, pin).await.refuse("issuer", "is not signed by the ca.crt", "ca.crt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_nobody_configured() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut good = Node::start("good", keys.identity("good")).await;
    let mut stranger = Node::start("stranger", keys.identity("stranger")).await;
    introduce(&keys, &[&bj1, &good]);
    stranger.handle.set_peers(vec![peer("bj1", bj1.address(), keys.pin("bj1"))]);
    bj1.until("it is refused", |node| node.refused("unknown-pin") >= 2).await;
    stranger
        .until("it is told", |node| node.last_error("bj1").contains("does not know this node's pin"))
        .await;
    bj1.until_up("good").await;
    good.until_up("bj1").await;
    assert!(bj1.kinds("stranger").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_changed_while_two_pins_are_known() {
    let keys = Keys::new();
    let mut bj1 = Node::start("bj1", keys.identity("bj1")).await;
    let mut fra1 = Node::start("fra1", keys.identity("fra1")).await;
    introduce(&keys, &[&bj1, &fra1]);
    bj1.until_up("fra1").await;
    fra1.until_up("bj1").await;
    // the other key is known first; the connection stays
    let (old, new) = (keys.pin("fra1"), keys.identity("fra1-new"));
    let mut known = peer("fra1", fra1.address(), old);
    known.pins.push(new.pin());
    bj1.handle.set_peers(vec![known.clone()]);
    fra1.handle.set_identity(new.clone());
    assert_eq!(fra1.status().pin, new.pin());
    // then the old one is taken back: its connection is closed, and the new key makes another
    known.pins.remove(0);
    bj1.handle.set_peers(vec![known]);
    let has_new = |node: &Node| node.status().peers[0].links.iter().any(|link| link.pin == new.pin());
    bj1.until("the new key", |node| node.is_up("fra1") && has_new(node)).await;
    assert!(PATIENCE.as_secs() > 0 && bj1.refused("unknown-pin") == 0, "{:?}", bj1.status());
}

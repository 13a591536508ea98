#!/usr/bin/env bash
# Checks the unit with systemd's own tools, without installing anything. The limit is the exposure score, 0.0 to 10.0 (lower is better).
set -euo pipefail
cd "$(dirname "$0")"
limit=2.0

if ! command -v systemd-analyze >/dev/null; then
    echo "deploy/verify.sh: systemd-analyze is not installed, unit not checked"
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# the program and its user need not be installed for the check
sed -e 's|/usr/bin/portolan |/bin/true |; s|^User=portolan|User=daemon|; s|^Group=portolan|Group=daemon|' \
    portolan.service >"$work/portolan.service"

complaints=$(systemd-analyze verify --man=no "$work/portolan.service" 2>&1) || true
# other units of this machine are not ours
if grep -F portolan.service <<<"$complaints"; then
    echo "deploy/verify.sh: systemd-analyze verify complains about the unit" >&2
    exit 1
fi

# --threshold counts in tenths
report=$(systemd-analyze security --offline=yes --no-pager --threshold="${limit/./}" "$work/portolan.service") || {
    echo "$report"
    echo "deploy/verify.sh: exposure is above $limit" >&2
    exit 1
}
tail -1 <<<"$report"

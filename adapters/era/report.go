package era

import (
	"context"

	"dragoman/proxy/wire"
)

// Both answers the verdict of both eras: a modern server is asked for its legacy side too.
func (u *Upstream) Both(ctx context.Context) (*Verdict, error) {
	v, err := u.Verdict(ctx)
	if err != nil || !v.Modern || v.checked {
		return v, err
	}
	return u.checkLegacy(ctx)
}

// Identity answers what the server says it is and can do, as raw JSON; nil where it does not say.
func (v *Verdict) Identity() (info, caps []byte) {
	whole := func(raw []byte) wire.Span { return wire.Span{From: 0, To: uint32(len(raw))} } //nolint:gosec // part of a message
	if v.Discover != nil {
		d := v.Discover
		return wire.Path(d, whole(d), "_meta", meta+"serverInfo").Of(d), wire.Get(d, whole(d), "capabilities").Of(d)
	}
	i := v.Init
	if i == nil {
		return nil, nil
	}
	return wire.Get(i, whole(i), "serverInfo").Of(i), wire.Get(i, whole(i), "capabilities").Of(i)
}

// Degrades lists what clients of one era lose at this server for now, for people.
func (v *Verdict) Degrades() []string {
	out := []string{"all clients: the server cannot ask (elicitation, sampling, roots)"}
	switch {
	case v.Modern && v.Legacy:
		return out
	case v.Modern:
		return append(out, "legacy clients: no change notices, no resources/subscribe; tasks of 2025-11-25 are not offered")
	}
	return append(out, "modern clients: no subscriptions/listen; tools that can only run as a task are hidden")
}

// Package registry keeps the servers that are registered while Dragoman runs, and serves the API for them. Each change of them makes a
// generation, as a reload of the configuration does.
package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/catalogue"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/internal/config/field"
	"dragoman/policies/access"
	"dragoman/policies/telemetry"
)

// Options configure a Registry. Its functions return what holds now.
type Options struct {
	Log zerolog.Logger
	// Now returns the configuration and its targets: both of one generation, since a server may be in one and not in the next.
	Now func() (*config.Config, *target.Set)
	// Audit returns the audit trail; nil: there is none.
	Audit func() *telemetry.AuditLog
	// Test connects the only server of a configuration, which [config.Config.Alone] returned, and leaves nothing behind.
	Test func(ctx context.Context, cfg *config.Config) aggregator.Tested
}

// Registry holds the registered servers. It is safe for concurrent use.
type Registry struct {
	opt     Options
	changes chan Change
	events  *aggregator.Events

	changing sync.Mutex                         // held during a change
	store    atomic.Pointer[catalogue.Registry] // nil: it is not open; a reload may open it while the API is asked
	stop     context.CancelFunc                 // ends the goroutine that follows what others change; nil: there is none
	followed sync.WaitGroup
	vault    atomic.Pointer[catalogue.Vault] // nil: nothing is encrypted

	mu   sync.Mutex
	all  []catalogue.Registration // as they were read last
	left map[string]error         // why servers were left out of the current configuration, by name

	listening atomic.Pointer[[]netip.AddrPort] // the addresses of the listeners
}

// Change asks for a generation with the registered servers as they are stored.
type Change struct {
	Cut  string     // the server whose requests end at once; empty: none
	Done chan error // receives the outcome
}

// New returns a Registry that is not open.
func New(opt Options) *Registry {
	r := &Registry{opt: opt, changes: make(chan Change)}
	r.listening.Store(new([]netip.AddrPort))
	r.events = aggregator.NewEvents(func() []aggregator.Server { return r.servers(false) }, r.offers)
	return r
}

// config returns the configuration.
func (r *Registry) config() *config.Config {
	cfg, _ := r.opt.Now()
	return cfg
}

// targets returns the targets.
func (r *Registry) targets() *target.Set {
	_, targets := r.opt.Now()
	return targets
}

// offers returns a channel that is closed when what servers offer changes after the call; nil if nobody tells.
func (r *Registry) offers() <-chan struct{} {
	c := r.targets().Catalogue
	if c == nil {
		return nil
	}
	return c.Changed(c.Snapshot().Version)
}

// Touch says that the state of a server may have changed.
func (r *Registry) Touch() { r.events.Touch() }

// Activated says that another configuration is in force than before.
func (r *Registry) Activated(before, now *config.Config) {
	if !reflect.DeepEqual(before.Aggregator, now.Aggregator) {
		r.events.EndAll("who may read has changed")
	}
	r.events.Touch()
}

// Changes has each change, for the goroutine that makes generations.
func (r *Registry) Changes() <-chan Change { return r.changes }

// Open opens the store of the registered servers, if the configuration lets servers be registered and it is not open. If it cannot be used,
// the servers of the configuration are served alone, and the API says why.
func (r *Registry) Open(cfg *config.Config) {
	if !cfg.Aggregator.On() || r.stored() != nil {
		return
	}
	store, err := target.OpenRegistry(cfg, func(err error) {
		if err != nil {
			r.opt.Log.Warn().Err(err).Msg("the database of the registered servers is lost; they are served on, and cannot be changed")
			return
		}
		r.opt.Log.Info().Msg("the database of the registered servers is there again")
	})
	if err != nil {
		r.opt.Log.Error().Err(err).Msg("the registered servers cannot be read; none of them is served until a reload or a restart can read them")
		return
	}
	r.store.Store(&store)
	if w, ok := store.(catalogue.Watched); ok {
		var ctx context.Context
		ctx, r.stop = context.WithCancel(context.Background())
		r.followed.Go(func() { r.follow(ctx, w) })
	}
}

// stored returns the store; nil: it is not open.
func (r *Registry) stored() catalogue.Registry {
	if store := r.store.Load(); store != nil {
		return *store
	}
	return nil
}

// Close closes the store, after the listeners.
func (r *Registry) Close() {
	if r.stop != nil {
		r.stop()
		r.followed.Wait()
	}
	r.events.Close()
	if c, ok := r.stored().(io.Closer); ok {
		_ = c.Close() // each change was stored before it was answered
	}
}

// read returns the registered servers, opened, and apart from them those that cannot be opened, without their connections. Those that another
// key has sealed than the present one are sealed anew.
func (r *Registry) read(ctx context.Context, cfg *config.Config) (opened, unread []catalogue.Registration, err error) {
	agg := &cfg.Aggregator
	r.vault.Store(catalogue.NewVault(agg.SealKey.Reveal(), agg.FormerKey.Reveal()))
	all, err := r.stored().Registrations(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range all {
		plain, present, err := r.vault.Load().Open(one.Name, one.Connection)
		if err != nil {
			one.Connection = nil
			unread = append(unread, one)
			continue
		}
		if one.Connection = plain; !present {
			if one, err = r.put(ctx, one); err != nil {
				r.opt.Log.Warn().Str("upstream", one.Name).Err(err).Msg("a registered server is not encrypted with the present key yet")
			}
		}
		opened = append(opened, one)
	}
	return opened, unread, nil
}

// errSealed is why a registered server is left out whose registration cannot be read.
var errSealed = errors.New("it was encrypted with another key; set aggregator.seal_key, or former_seal_key, to that key")

// put stores a registration, sealed, and returns it as it is stored, opened.
func (r *Registry) put(ctx context.Context, one catalogue.Registration) (catalogue.Registration, error) {
	plain := one.Connection
	one.Connection = r.vault.Load().Seal(one.Name, plain)
	one, err := r.stored().Put(ctx, one)
	one.Connection = plain
	return one, err
}

// With returns the configuration with the registered servers. If they cannot be read, the error says why, and the configuration has those
// that were read last.
func (r *Registry) With(ctx context.Context, cfg *config.Config) (*config.Config, error) {
	if r.stored() == nil || !cfg.Aggregator.On() {
		return cfg, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	all, unread, err := r.read(ctx, cfg)
	if err != nil {
		last, _ := r.registrations()
		next, _ := cfg.With(registered(slices.DeleteFunc(slices.Clone(last), func(one catalogue.Registration) bool { return one.Connection == nil })))
		return next, fmt.Errorf("the registered servers cannot be read: %w", err)
	}
	next, left := cfg.With(registered(all))
	for _, one := range unread {
		all, left[one.Name] = append(all, one), errSealed
	}
	r.mu.Lock()
	before := r.left
	r.all, r.left = all, left
	r.mu.Unlock()
	for name, why := range left {
		if was := before[name]; was == nil || was.Error() != why.Error() {
			r.opt.Log.Warn().Str("upstream", name).AnErr("cause", why).Msg("a registered server is left out")
		}
	}
	return next, nil
}

// storeTime bounds a request to the store of the registered servers.
const storeTime = 10 * time.Second

// registered returns registrations as the configuration takes them.
func registered(all []catalogue.Registration) []config.Registered {
	made := make([]config.Registered, len(all))
	for i, r := range all {
		made[i] = config.Registered{ID: r.ID, Name: r.Name, Transport: r.Transport, Connection: r.Connection, HealthURL: r.HealthURL, Wanted: r.Wanted, Disabled: r.Disabled}
	}
	return made
}

// registrations returns the registered servers, and why some were left out.
func (r *Registry) registrations() ([]catalogue.Registration, map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all, r.left
}

// Descriptions returns what operators say that registered servers are, by name.
func (r *Registry) Descriptions() map[string]string {
	all, _ := r.registrations()
	texts := make(map[string]string, len(all))
	for i := range all {
		texts[all[i].Name] = all[i].Description
	}
	return texts
}

// registration returns the registration of an id as it is stored.
func (r *Registry) registration(ctx context.Context, id string) (catalogue.Registration, error) {
	all, err := r.stored().Registrations(ctx)
	if err != nil {
		return catalogue.Registration{}, err
	}
	i := slices.IndexFunc(all, func(one catalogue.Registration) bool { return one.ID == id })
	if i < 0 {
		return catalogue.Registration{}, catalogue.ErrGone
	}
	one := all[i]
	one.Connection, _, err = r.vault.Load().Open(one.Name, one.Connection)
	return one, err
}

// apply has the generation of a change made, and waits for it. The requests of a server that is cut end at once.
func (r *Registry) apply(ctx context.Context, cut string) error {
	c := Change{cut, make(chan error, 1)}
	select {
	case r.changes <- c:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.Done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Listens says where Dragoman listens, so that no registered server is Dragoman itself; nil is nowhere.
func (r *Registry) Listens(listeners ...net.Listener) {
	var all []netip.AddrPort
	for _, ln := range listeners {
		if ln == nil {
			continue
		}
		if at, ok := ln.Addr().(*net.TCPAddr); ok {
			all = append(all, at.AddrPort())
		}
	}
	r.listening.Store(&all)
}

// ListensAs says that Dragoman listens where another Registry says it does.
func (r *Registry) ListensAs(other *Registry) { r.listening.Store(other.listening.Load()) }

// Refuse returns why a registered server may not be reached at an address; nil if it may.
func (r *Registry) Refuse(to netip.AddrPort) error {
	var allowed []netip.Prefix
	for _, text := range r.config().Aggregator.Networks {
		if p, err := field.Network(text); err == nil { // the configuration was checked
			allowed = append(allowed, p)
		}
	}
	networks := access.Networks{Allowed: allowed, Own: func() []netip.AddrPort { return *r.listening.Load() }}
	if err := networks.Refuse(to); err != nil {
		return fmt.Errorf("%w; registered servers may be in public networks, and in those of aggregator.networks", err)
	}
	return nil
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

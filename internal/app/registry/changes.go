package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/catalogue"
	"dragoman/internal/config/value"
	"dragoman/policies/health"
)

// conflict returns the answer for a name that is taken.
func conflict(name string) error {
	return &aggregator.Problem{Status: fasthttp.StatusConflict, Detail: "Server already exists: " + name}
}

// wrong returns the answer for a registration that the configuration refuses.
func wrong(name string, err error) error {
	var all value.ConfigErrors
	if !errors.As(err, &all) { // config.ErrShadowed
		return conflict(name)
	}
	var mistakes []aggregator.Mistake
	for _, e := range all {
		mistakes = append(mistakes, aggregator.Mistake{Where: append([]string{"body"}, strings.SplitN(e.Key, ".", 3)...), Text: value.WithFix(e.Problem, e.Fix), Type: "value_error"})
	}
	return &aggregator.Problem{Status: fasthttp.StatusUnprocessableEntity, Detail: mistakes}
}

// changeTime bounds a change, without the wait for the requests of a server that is disconnected.
const changeTime = 30 * time.Second

// change makes one change: what is called while nothing else changes the registered servers, and returns the server to be cut, if any.
func (r *Registry) change(ctx context.Context, what func(ctx context.Context) (cut string, err error)) error {
	if r.stored() == nil {
		return errors.New("the store of the registered servers cannot be used; the log says why")
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	cut, err := what(ctx)
	if err != nil {
		return refused(err)
	}
	return refused(r.apply(ctx, cut))
}

// save stores a registration that the configuration takes.
func (r *Registry) save(ctx context.Context, one catalogue.Registration) (catalogue.Registration, error) {
	if _, left := r.config().With(registered([]catalogue.Registration{one})); left[one.Name] != nil {
		return one, wrong(one.Name, left[one.Name])
	}
	stored, err := r.put(ctx, one)
	switch {
	case errors.Is(err, catalogue.ErrExists):
		return one, conflict(one.Name)
	case errors.Is(err, catalogue.ErrGone):
		return one, aggregator.NotFound(one.ID)
	case errors.Is(err, catalogue.ErrStale):
		return one, &aggregator.Problem{Status: fasthttp.StatusConflict, Detail: "The server was changed meanwhile; read it and try again"}
	}
	return stored, err
}

// maxRegistered bounds the registered servers.
const maxRegistered = 500

// add implements aggregator.Options.
func (r *Registry) add(ctx context.Context, what *aggregator.Registration) (s aggregator.Server, err error) {
	if all, _ := r.registrations(); len(all) >= maxRegistered {
		return s, &aggregator.Problem{Status: fasthttp.StatusConflict, Detail: fmt.Sprintf("%d servers are registered, the most that can be", len(all))}
	}
	now := time.Now()
	one := catalogue.Registration{ID: newUUID(), Name: what.Name, Description: what.Description, Transport: what.Transport, Connection: what.Connection, HealthURL: what.HealthURL,
		Wanted: what.AutoConnect, Registered: now, Updated: now}
	err = r.change(ctx, func(ctx context.Context) (_ string, err error) {
		one, err = r.save(ctx, one)
		return "", err
	})
	if err != nil {
		return s, err
	}
	if s, err = r.server(one.ID); one.Wanted {
		s.Status, s.Error = string(health.Connecting), "" // whatever may have come of it by now
	}
	return s, err
}

// server returns a server as the API shows it.
func (r *Registry) server(id string) (aggregator.Server, error) {
	for _, s := range r.servers(false) {
		if s.ID == id {
			return s, nil
		}
	}
	return aggregator.Server{}, aggregator.NotFound(id)
}

// edit changes a registration, as it is stored, by f. f returns false if nothing is to be changed, and the server to be cut, if any.
func (r *Registry) edit(ctx context.Context, id string, f func(one *catalogue.Registration) (changed bool, cut string, err error)) error {
	return r.change(ctx, func(ctx context.Context) (string, error) {
		one, err := r.registration(ctx, id)
		if errors.Is(err, catalogue.ErrGone) {
			err = aggregator.NotFound(id)
		}
		if err != nil {
			return "", err
		}
		changed, cut, err := f(&one)
		if err != nil || !changed {
			return "", err
		}
		one.Updated = time.Now()
		_, err = r.save(ctx, one)
		return cut, err
	})
}

// update implements aggregator.Options.
func (r *Registry) update(ctx context.Context, id string, u *aggregator.Update) (s aggregator.Server, err error) {
	err = r.edit(ctx, id, func(one *catalogue.Registration) (bool, string, error) {
		if u.HealthURL != nil && *u.HealthURL == value.RedactURL(one.HealthURL) { // it came back as it is shown
			u.HealthURL = nil
		}
		for _, field := range []struct{ to, given *string }{{&one.Description, u.Description}, {&one.Transport, u.Transport}, {&one.HealthURL, u.HealthURL}} {
			if field.given != nil {
				*field.to = *field.given
			}
		}
		if u.Connection != nil {
			connection, err := restored(u.Connection, one.Connection)
			if err != nil {
				return false, "", err
			}
			one.Connection = connection
		}
		if u.Disabled != nil {
			one.Disabled = *u.Disabled
		}
		return true, "", nil
	})
	if err != nil {
		return s, err
	}
	return r.server(id)
}

// connect implements aggregator.Options.
func (r *Registry) connect(ctx context.Context, id string) error {
	return r.edit(ctx, id, func(one *catalogue.Registration) (bool, string, error) {
		t := r.targets().Named(one.Name)
		switch {
		case !one.Wanted, t == nil:
			one.Wanted = true
			return true, "", nil
		case t.State().Connected:
			return false, "", &aggregator.Problem{Status: fasthttp.StatusConflict, Detail: "Server already connected: " + one.Name}
		}
		t.Monitor.Recheck() // it is tried already, and perhaps only in a minute
		r.targets().Reread(one.Name)
		return false, "", nil
	})
}

// disconnect implements aggregator.Options.
func (r *Registry) disconnect(ctx context.Context, id string, force bool) error {
	var gone <-chan struct{}
	err := r.edit(ctx, id, func(one *catalogue.Registration) (bool, string, error) {
		if !one.Wanted {
			return false, "", nil
		}
		if t := r.targets().Named(one.Name); t != nil {
			gone = t.Ended().Done()
		}
		if one.Wanted = false; force {
			return true, one.Name, nil
		}
		return true, "", nil
	})
	if err != nil || gone == nil {
		return err
	}
	select {
	case <-gone: // drain_timeout bounds it
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// remove implements aggregator.Options.
func (r *Registry) remove(ctx context.Context, id string) error {
	if err := r.disconnect(ctx, id, false); err != nil {
		return err
	}
	return r.change(ctx, func(ctx context.Context) (string, error) {
		err := r.stored().Remove(ctx, id)
		if errors.Is(err, catalogue.ErrGone) {
			err = aggregator.NotFound(id)
		}
		if err != nil {
			return "", err
		}
		if err := r.targets().ForgetDefinitions(ctx, id); err != nil { // nobody gets that id again
			r.opt.Log.Warn().Err(err).Msg("what was approved of a removed server stays in the catalogue")
		}
		return "", nil
	})
}

package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is the channel of NOTIFY on which changes of registrations are told.
const channel = "dragoman_registrations"

// Changes returns a channel that receives after registrations may have changed, by whomever: within a second of the change while the database
// can be reached, and when it can be reached again. Several changes may be one.
func (s *Store) Changes() <-chan struct{} { return s.changed }

// signal tells that registrations may have changed.
func (s *Store) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// tend brings the tables up to date, listens, and gives signs of life, until ctx ends. After a failure it begins again.
func (s *Store) tend(ctx context.Context) {
	pause, lost := retryLeast, false
	for ctx.Err() == nil {
		err := s.listen(ctx, func() {
			if lost {
				s.opt.Note(nil)
			}
			pause, lost = retryLeast, false
			s.signal() // what was told meanwhile was not heard
		})
		if ctx.Err() != nil || s.failed() {
			return
		}
		if !lost {
			s.opt.Note(away(err))
		}
		lost = true
		select {
		case <-time.After(pause):
			pause = min(2*pause, retryMost)
		case <-ctx.Done():
		}
	}
}

// listen listens until something fails. began is called once it hears.
func (s *Store) listen(ctx context.Context, began func()) error {
	if s.there() != nil {
		err := s.bounded(ctx, s.migrate)
		s.settle(err)
		if err != nil {
			return err
		}
	}
	config := s.pool.Config().ConnConfig
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	if err := s.bounded(ctx, s.beat); err != nil {
		return err
	}
	began()
	for {
		wait, cancel := context.WithTimeout(ctx, beatTime)
		_, err := conn.WaitForNotification(wait)
		late := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			s.signal()
		case ctx.Err() != nil || !late:
			return err
		default:
			if err := s.bounded(ctx, func(ctx context.Context) error { return errors.Join(conn.Ping(ctx), s.beat(ctx)) }); err != nil {
				return err
			}
		}
	}
}

// bounded calls f with a limit of time.
func (s *Store) bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	return f(ctx)
}

// beat gives a sign of life, and removes instances that have given none for long.
func (s *Store) beat(ctx context.Context) error {
	if s.opt.Instance == "" {
		return nil
	}
	return s.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO mcp.instances(name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET seen_at = now()", s.opt.Instance); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM mcp.instances WHERE seen_at < now() - make_interval(secs => $1)", (3 * aliveTime).Seconds())
		return err
	})
}

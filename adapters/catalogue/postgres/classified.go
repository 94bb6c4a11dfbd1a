package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"dragoman/adapters/catalogue"
)

// removeOf removes what was approved of a server, and the categories of its tools.
const removeOf = "WITH pins AS (" + removePins + ") DELETE FROM mcp.tool_skills WHERE server_id = $1"

// Classifications implements catalogue.Classifications.
func (s *Store) Classifications(ctx context.Context) (all []catalogue.Classification, err error) {
	if err := s.there(); err != nil {
		return nil, err
	}
	err = each(ctx, s.pool, `SELECT server_id, tool, hash, state, skill_ids, confidences, classified_by, person, failures, changed_at FROM mcp.tool_skills ORDER BY server_id COLLATE "C", tool`, func(rows pgx.Rows) error {
		var c catalogue.Classification
		var tool, hash []byte
		var names []string
		var confidences []float64
		if err := rows.Scan(&c.Server, &tool, &hash, &c.State, &names, &confidences, &c.By, &c.Person, &c.Failures, &c.At); err != nil {
			return err
		}
		if len(hash) != len(c.Hash) || len(names) != len(confidences) {
			return fmt.Errorf("the classification of %q: %w", tool, errHash)
		}
		c.Tool, c.Hash = string(tool), [len(c.Hash)]byte(hash)
		for i, name := range names {
			c.Skills = append(c.Skills, catalogue.Skill{Name: name, Confidence: confidences[i]})
		}
		all = append(all, c)
		return nil
	})
	if err != nil {
		return nil, away(err)
	}
	return all, nil
}

// ClaimTools implements catalogue.Classifications. The clock is that of the database. A row is claimed by its change, so that of instances
// that claim at once one gets it.
func (s *Store) ClaimTools(ctx context.Context, instance string, lease time.Duration, all []catalogue.Classification) (got []catalogue.ToolKey, err error) {
	err = s.classifications(ctx, all, func(tx pgx.Tx, c *catalogue.Classification) error {
		done, err := tx.Exec(ctx, `INSERT INTO mcp.tool_skills AS has (server_id, tool, hash, state, skill_ids, confidences, classified_by, person, failures, changed_at, claimed_by, claimed_until)
			VALUES ($1, $2, $3, $4, '{}', '{}', '', false, 0, now(), $5, now() + make_interval(secs => $6))
			ON CONFLICT (server_id, sha256(tool)) DO UPDATE SET hash = excluded.hash, state = excluded.state, changed_at = now(), claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until
			WHERE NOT has.person AND NOT (has.state = $4 AND has.claimed_by <> $5 AND has.claimed_until > now()) AND NOT (has.state = $7 AND has.hash = $3)`,
			c.Server, []byte(c.Tool), c.Hash[:], catalogue.Classifying, clean(instance), lease.Seconds(), catalogue.Classified)
		if err == nil && done.RowsAffected() > 0 {
			got = append(got, c.ToolKey)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// PutClassifications implements catalogue.Classifications.
func (s *Store) PutClassifications(ctx context.Context, all []catalogue.Classification) error {
	return s.classifications(ctx, all, func(tx pgx.Tx, c *catalogue.Classification) error {
		if c.State == "" {
			_, err := tx.Exec(ctx, "DELETE FROM mcp.tool_skills WHERE server_id = $1 AND sha256(tool) = sha256($2) AND ($3 OR NOT person)", c.Server, []byte(c.Tool), c.Person)
			return err
		}
		names, confidences := []string{}, []float64{}
		for _, one := range c.Skills {
			names, confidences = append(names, clean(one.Name)), append(confidences, one.Confidence)
		}
		_, err := tx.Exec(ctx, `INSERT INTO mcp.tool_skills AS has (server_id, tool, hash, state, skill_ids, confidences, classified_by, person, failures, changed_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (server_id, sha256(tool)) DO UPDATE SET hash = excluded.hash, state = excluded.state, skill_ids = excluded.skill_ids, confidences = excluded.confidences,
				classified_by = excluded.classified_by, person = excluded.person, failures = excluded.failures, changed_at = excluded.changed_at, claimed_by = '', claimed_until = NULL
			WHERE $11 OR NOT has.person`,
			c.Server, []byte(c.Tool), c.Hash[:], c.State, names, confidences, clean(c.By), c.Person && c.State == catalogue.Classified, c.Failures, c.At, c.Person)
		return err
	})
}

// classifications calls f for each of some classifications, in one transaction and in their order, so that none waits for another in a circle.
func (s *Store) classifications(ctx context.Context, all []catalogue.Classification, f func(pgx.Tx, *catalogue.Classification) error) error {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := s.there(); err != nil {
		return err
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b catalogue.Classification) int { return a.Compare(b.ToolKey) })
	err := s.transaction(ctx, func(tx pgx.Tx) error {
		for i := range all {
			if err := f(tx, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return away(err)
	}
	return nil
}

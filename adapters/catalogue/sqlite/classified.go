package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/catalogue"
)

// Classifications implements catalogue.Classifications.
func (s *Store) Classifications(ctx context.Context) (all []catalogue.Classification, err error) {
	return all, s.each(ctx, "SELECT server_id, tool, hash, state, skills, classified_by, person, failures, changed_at FROM tool_skills ORDER BY server_id, tool", func(rows *sql.Rows) error {
		var c catalogue.Classification
		var hash, skills []byte
		var at int64
		if err := rows.Scan(&c.Server, &c.Tool, &hash, &c.State, &skills, &c.By, &c.Person, &c.Failures, &at); err != nil {
			return err
		}
		if len(hash) != len(c.Hash) {
			return fmt.Errorf("the classification of %q has a hash of %d bytes", c.Tool, len(hash))
		}
		c.Hash, c.At = [len(c.Hash)]byte(hash), instant(at)
		if err := json.Unmarshal(skills, &c.Skills); err != nil {
			return fmt.Errorf("the classification of %q: %w", c.Tool, err)
		}
		all = append(all, c)
		return nil
	})
}

// ClaimTools implements catalogue.Classifications.
func (s *Store) ClaimTools(ctx context.Context, instance string, lease time.Duration, all []catalogue.Classification) (got []catalogue.ToolKey, err error) {
	now := time.Now()
	err = s.transaction(ctx, func(tx *sql.Tx) error {
		for i := range all {
			c := &all[i]
			done, err := tx.ExecContext(ctx, claimTool, c.Server, c.Tool, c.Hash[:], catalogue.Classifying, stamp(now), instance, stamp(now.Add(lease)), catalogue.Classified)
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			if err != nil {
				return err
			}
			if n > 0 {
				got = append(got, c.ToolKey)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	return got, nil
}

const claimTool = `INSERT INTO tool_skills(server_id, tool, hash, state, skills, classified_by, person, failures, changed_at, claimed_by, claimed_until)
	VALUES (?1, ?2, ?3, ?4, '[]', '', 0, 0, ?5, ?6, ?7)
	ON CONFLICT(server_id, tool) DO UPDATE SET hash = excluded.hash, state = excluded.state, changed_at = excluded.changed_at, claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until
	WHERE NOT person AND NOT (state = ?4 AND claimed_by <> ?6 AND claimed_until > ?5) AND NOT (state = ?8 AND hash = ?3)`

// PutClassifications implements catalogue.Classifications.
func (s *Store) PutClassifications(ctx context.Context, all []catalogue.Classification) error {
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		for i := range all {
			if err := putClassification(ctx, tx, &all[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	return nil
}

func putClassification(ctx context.Context, tx *sql.Tx, c *catalogue.Classification) error {
	if c.State == "" {
		_, err := tx.ExecContext(ctx, "DELETE FROM tool_skills WHERE server_id = ? AND tool = ? AND (? OR NOT person)", c.Server, c.Tool, c.Person)
		return err
	}
	skills, err := json.Marshal(append([]catalogue.Skill{}, c.Skills...))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO tool_skills(server_id, tool, hash, state, skills, classified_by, person, failures, changed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
		ON CONFLICT(server_id, tool) DO UPDATE SET hash = excluded.hash, state = excluded.state, skills = excluded.skills, classified_by = excluded.classified_by,
			person = excluded.person, failures = excluded.failures, changed_at = excluded.changed_at, claimed_by = '', claimed_until = 0
		WHERE ?10 OR NOT person`,
		c.Server, c.Tool, c.Hash[:], c.State, string(skills), c.By, c.Person && c.State == catalogue.Classified, c.Failures, stamp(c.At), c.Person)
	return err
}

const removeClassifications = "DELETE FROM tool_skills WHERE server_id = ?"

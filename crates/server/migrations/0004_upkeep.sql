-- How far the walks of old rows are: what a migration does not do itself, since it costs the same whatever is
-- stored. Maintenance walks in bounded batches; who uses what a walk fills waits until it is done.
CREATE TABLE maintain_backfill (
  name TEXT PRIMARY KEY,
  -- The key of the last row that was walked; the text is empty where a number alone is the key.
  after_key TEXT NOT NULL DEFAULT '',
  after_rowid INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Which events concern a machine (1), are about a session (2), were made by an actor (3): a history of one of
-- them reads its own events alone, in a team that has a year of them.
CREATE TABLE event_lookup (
  team_id TEXT NOT NULL,
  about INTEGER NOT NULL,
  id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  PRIMARY KEY (team_id, about, id, sequence)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER event_lookup_fills AFTER INSERT ON events BEGIN
  INSERT OR IGNORE INTO event_lookup
    SELECT new.team_id, 1, new.machine_id, new.sequence WHERE new.machine_id IS NOT NULL;
  INSERT OR IGNORE INTO event_lookup
    SELECT new.team_id, 2, new.resource_id, new.sequence WHERE new.resource_kind = 'session';
  INSERT OR IGNORE INTO event_lookup
    SELECT new.team_id, 3, new.actor_id, new.sequence WHERE new.actor_id IS NOT NULL;
END;

CREATE TRIGGER event_lookup_forgets AFTER DELETE ON events BEGIN
  DELETE FROM event_lookup
    WHERE team_id = old.team_id AND about = 1 AND id = old.machine_id AND sequence = old.sequence;
  DELETE FROM event_lookup
    WHERE team_id = old.team_id AND about = 2 AND id = old.resource_id AND sequence = old.sequence;
  DELETE FROM event_lookup
    WHERE team_id = old.team_id AND about = 3 AND id = old.actor_id AND sequence = old.sequence;
END;

INSERT INTO maintain_backfill (name, done)
  VALUES ('event_lookup', NOT EXISTS (SELECT 1 FROM events));

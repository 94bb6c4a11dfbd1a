-- Servers that were registered while Dragoman ran. version is NULL for all others.
ALTER TABLE external_servers ADD COLUMN version INTEGER;
ALTER TABLE external_servers ADD COLUMN description TEXT;
ALTER TABLE external_servers ADD COLUMN connection_config TEXT;
ALTER TABLE external_servers ADD COLUMN health_check_url TEXT;
ALTER TABLE external_servers ADD COLUMN wanted INTEGER; -- it should be connected
ALTER TABLE external_servers ADD COLUMN disabled_tools TEXT; -- a JSON array of their own names
ALTER TABLE external_servers ADD COLUMN updated_at INTEGER;

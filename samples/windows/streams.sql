-- Packets, and the names of hosts as changes. A query follows: xmlpunct run samples/windows/streams.sql -q "SELECT ..."

CREATE STREAM packet (src STRING, len INT, ts INT NOT NULL PATH '@ts')
  WITH (source = 'samples/windows/packets.xml', element = 'packet', timestamp = 'ts');

CREATE RELATION domainof (ip STRING, alias STRING, name STRING, at INT NOT NULL PATH '@at', diff INT PATH '@diff')
  WITH (source = 'samples/windows/domains.xml', element = 'host', timestamp = 'at', change = 'diff');

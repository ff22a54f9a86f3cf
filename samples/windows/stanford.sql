-- The packets that come from a host which is of stanford.edu at that instant (Arasu and Widom, Example 2.1). It is a
-- semijoin: 10.0.0.1 has two names there, and each of its packets counts once.

CREATE STREAM packet (src STRING, len INT, ts INT NOT NULL PATH '@ts')
  WITH (source = 'samples/windows/packets.xml', element = 'packet', timestamp = 'ts');

CREATE RELATION domainof (ip STRING, alias STRING, name STRING, at INT NOT NULL PATH '@at', diff INT PATH '@diff')
  WITH (source = 'samples/windows/domains.xml', element = 'host', timestamp = 'at', change = 'diff');

RSTREAM(SELECT p.src, p.len FROM packet [NOW] p WHERE p.src IN (SELECT ip FROM domainof WHERE name = 'stanford.edu'));

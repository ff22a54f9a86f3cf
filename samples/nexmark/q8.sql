-- Query 8, new users: people who registered and began to sell within the same ten seconds.

CREATE STREAM person (
  id INT NOT NULL PATH '@id',
  name STRING NOT NULL,
  city STRING NOT NULL PATH 'address/city',
  state STRING NOT NULL PATH 'address/province',
  registered INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'person');

CREATE STREAM open_auction (
  id INT NOT NULL PATH '@id',
  seller INT NOT NULL PATH 'seller/@person',
  category INT NOT NULL,
  start INT NOT NULL PATH 'interval/start',
  expires INT NOT NULL PATH 'interval/end'
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction', where = '@new = ''yes''');

SELECT DISTINCT p.id, p.name, p.window_start
FROM TUMBLE(TABLE person, DESCRIPTOR(registered), 10000) AS p
  JOIN TUMBLE(TABLE open_auction, DESCRIPTOR(start), 10000) AS a
  ON p.id = a.seller AND p.window_start = a.window_start;

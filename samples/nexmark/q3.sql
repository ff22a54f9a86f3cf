-- Query 3, local items: people who sell an item of category 10 in three states. A person is purged when their auctions
-- are closed, an auction when its seller is known.

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

SELECT p.name, p.city, p.state, a.id
FROM open_auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA');

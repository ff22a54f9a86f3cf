-- Each bid with the highest one on its item so far.

CREATE STREAM bid (item STRING PATH '@item', price INT, ts INT NOT NULL PATH '@ts')
  WITH (source = 'samples/windows/bids.xml', element = 'bid', timestamp = 'ts');

SELECT item, ts, price, MAX(price) OVER (PARTITION BY item ORDER BY ts) AS highest FROM bid;

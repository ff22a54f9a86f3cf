-- The bouts of bidding on each item: bids that follow each other by less than six instants.

CREATE STREAM bid (item STRING PATH '@item', price INT, ts INT NOT NULL PATH '@ts')
  WITH (source = 'samples/windows/bids.xml', element = 'bid', timestamp = 'ts');

SELECT item, window_start, window_end, COUNT(*) AS bids, MAX(price) AS top
FROM SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(ts), 6)
GROUP BY item, window_start, window_end;

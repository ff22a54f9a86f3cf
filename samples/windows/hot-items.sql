-- How many bids each item has had in ten instants, every five, where it had two or more. Each window of an item leaves
-- once the bids on that item are over that far.

CREATE STREAM bid (item STRING PATH '@item', price INT, ts INT NOT NULL PATH '@ts')
  WITH (source = 'samples/windows/bids.xml', element = 'bid', timestamp = 'ts');

SELECT item, window_start, window_end, COUNT(*) AS bids
FROM HOP(TABLE bid, DESCRIPTOR(ts), 5, 10)
GROUP BY item, window_start, window_end
HAVING COUNT(*) >= 2;

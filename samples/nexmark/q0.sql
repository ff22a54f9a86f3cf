-- Query 0, pass through: every bid. It measures what reading and writing cost.

CREATE STREAM bidder (
  auction INT NOT NULL PATH '../@id',
  person INT NOT NULL PATH 'person_ref/@person',
  bid INT NOT NULL,
  time INT NOT NULL
) WITH (source = 'samples/nexmark/nexmark.xml', element = 'open_auction/bidder');

SELECT auction, person, bid, time FROM bidder;

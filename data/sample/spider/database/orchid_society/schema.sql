CREATE TABLE member (
  member_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT,
  joined_year INTEGER,
  level TEXT
);
CREATE TABLE orchid (
  orchid_id INTEGER PRIMARY KEY,
  common_name TEXT NOT NULL,
  genus TEXT,
  petals INTEGER,
  price REAL,
  member_id INTEGER REFERENCES member(member_id)
);
CREATE TABLE exhibition (
  exhibition_id INTEGER PRIMARY KEY,
  title TEXT NOT NULL,
  city TEXT,
  year INTEGER,
  visitors INTEGER
);
CREATE TABLE award (
  award_id INTEGER PRIMARY KEY,
  exhibition_id INTEGER REFERENCES exhibition(exhibition_id),
  orchid_id INTEGER REFERENCES orchid(orchid_id),
  prize TEXT,
  points INTEGER
);

INSERT INTO member VALUES (1, 'Nadia Crewe', 'Lisport', 2004, 'gold');
INSERT INTO member VALUES (2, 'Oskar Bly', 'Munhaven', 2011, 'silver');
INSERT INTO member VALUES (3, 'Pilar Ost', 'Lisport', 1998, 'gold');
INSERT INTO member VALUES (4, 'Quinn Abara', 'Drewton', 2017, 'bronze');
INSERT INTO member VALUES (5, 'Rosa Teal', 'Munhaven', 2009, 'silver');
INSERT INTO member VALUES (6, 'Sven Marl', 'Drewton', 2020, 'bronze');
INSERT INTO member VALUES (7, 'Tilda Fenn', 'Capri Bay', 2013, NULL);
INSERT INTO orchid VALUES (1, 'Moon Slipper', 'Paphira', 3, 45.0, 1);
INSERT INTO orchid VALUES (2, 'Ember Star', 'Lunaria', 5, 80.5, 3);
INSERT INTO orchid VALUES (3, 'Mist Dancer', 'Paphira', 3, 38.0, 2);
INSERT INTO orchid VALUES (4, 'Velvet Hood', 'Cattleon', 6, 120.0, 3);
INSERT INTO orchid VALUES (5, 'Tiny Lantern', 'Lunaria', 5, 22.5, 5);
INSERT INTO orchid VALUES (6, 'Snow Tongue', 'Cattleon', 6, 95.0, 5);
INSERT INTO orchid VALUES (7, 'Night Clerk', 'Dendrel', 4, 60.0, 4);
INSERT INTO orchid VALUES (8, 'Coral Fan', 'Lunaria', 5, 71.0, 7);
INSERT INTO orchid VALUES (9, 'Pale Juggler', 'Paphira', 3, 52.0, NULL);
INSERT INTO exhibition VALUES (1, 'Spring Petals', 'Lisport', 2018, 1800);
INSERT INTO exhibition VALUES (2, 'Glasshouse Days', 'Munhaven', 2019, 2450);
INSERT INTO exhibition VALUES (3, 'Roots and Light', 'Lisport', 2021, 1320);
INSERT INTO exhibition VALUES (4, 'The Long Bloom', 'Drewton', 2022, 2975);
INSERT INTO exhibition VALUES (5, 'Night of Orchids', 'Capri Bay', 2022, 860);
INSERT INTO award VALUES (1, 1, 2, 'best bloom', 92);
INSERT INTO award VALUES (2, 1, 1, 'rarest colour', 81);
INSERT INTO award VALUES (3, 2, 4, 'best bloom', 97);
INSERT INTO award VALUES (4, 2, 6, 'jury prize', 88);
INSERT INTO award VALUES (5, 3, 2, 'jury prize', 85);
INSERT INTO award VALUES (6, 4, 4, 'best bloom', 95);
INSERT INTO award VALUES (7, 4, 8, 'rarest colour', 90);
INSERT INTO award VALUES (8, 3, 5, 'best bloom', 79);
INSERT INTO award VALUES (9, 4, 3, 'jury prize', 83);

"""Relations as streams of changes: a tuple, the instant of a change, and the number of copies added or removed.

A relation R is a bag R(τ) for each instant τ. A change <e, t, n> means that R(t) has n copies of e more than R(t-1).
So R(τ)(e) is the sum of n over all <e, t, n> with t <= τ. Operators on streams of tuples that treat <e, t, n> as a
tuple also work on relations. The table has the definitions of Arasu and Widom, with the operators that compute them.
Read <e, τ> in S with multiplicity.

=========================  =======================================================  ====================================
the paper                  its definition, corrected where relations 2 says so     the operator
=========================  =======================================================  ====================================
M_S2R, Now                 {e : <e,τ> in S}                                         `window.Window`, length 0
M_S2R, Range(T)            {e : <e,t> in S, τ-T <= t <= τ}                          `window.Window`, length T
M_S2R, Range(oo)           {e : <e,t> in S, t <= τ}                                 `window.Window`, no length
M_S2R, Row(N)              {e : <e,t> in S, t <= τ, N >= #{S from t to τ}}          `rows_window.RowsWindow`
M_S2R, PARTITION BY K      as Row(N), counting e' with e'.K = e.K                   `rows_window.RowsWindow`, by K
... SLIDE s                the window at o + s*floor((τ-o)/s)                       `window.Window`, slide s
M_R, a declared relation   R(τ)                                                     `relation.Relation`
M_R2R, σ                   {e : e in R(τ), p(e)}                                    `Select`, on changes as on tuples
M_R2R, π                   {f(e) : e in R(τ)}                                       `Project`, likewise
M_R2R, UNION ALL           R1(τ) + R2(τ)                                            `Merge`, likewise
M_R2R, join                {(e1,e2) : e1 in R1(τ), e2 in R2(τ), p(e1,e2)}           `join.ChangeJoin`
M_R2R, semijoin, antijoin  {e1 : e1 in R1(τ), some (no) e2 in R2(τ) with p(e1,e2)}  `ChangeJoin` with `Pointwise`,
                                                                                    `semijoin.ChangeSemi`
M_R2R, outer joins         the join, and the antijoin with nulls                    `Merge` of both
M_R2R, γ                   {γ(g) : g a group of R(τ)}                               `change_group_by.ChangeGroupBy`
M_R2R, DISTINCT, UNION,    f(R1(τ)(e), R2(τ)(e)) copies of each e                   `pointwise.Pointwise`, by its table
INTERSECT, EXCEPT [ALL]                                                             of functions f
M_R2S, Istream             {<e,t> : e in R(t) - R(t-1)}                             `to_stream.ToStream`, istream
M_R2S, Dstream             {<e,t> : e in R(t-1) - R(t)}                             `to_stream.ToStream`, dstream
M_R2S, Rstream             {<e,t> : e in R(t)}                                      `to_stream.ToStream`, rstream
M[[Q]], a relation         R                                                        `Pointwise`, function "changes"
=========================  =======================================================  ====================================

The paper defines the relation at each instant. Punctuations decide when it is complete. Operators exchange only
*prefixes*: <q, (,b]> closes all instants up to b for the tuples that q matches (relations 3.2). `closed_prefixes`
derives them from any punctuations on a stream. `instants` defines T. `prefixes` finds the instant up to which a key is
closed. `pending_prefixes` emits punctuations that one input justifies without the other inputs.

The state consists of arrangements. `partials` sums changes by key; `open_changes` has the changes that are not closed
yet, and `counted` the copies of each tuple. `sweep` advances counts, and `aggregates` groups, to the closed instants.
"""
